package investigator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/trigger"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// The authors of sessions that no person names. AuthorMCP and AuthorCLI are followed by the name
// of the client or user.
const (
	AuthorAPI     = "api-client"
	AuthorTrigger = "trigger"
	AuthorMCP     = "mcp:"
	AuthorCLI     = "cli:"
)

// Bounds of a submission, in bytes but for the Idempotency-Key.
const (
	maxData           = 1 << 20
	maxName           = 200 // of a type, a chain, a tool
	maxDedupKey       = 1000
	maxFingerprint    = 500
	maxIdempotencyKey = 200 // characters
)

// Times of a submission.
const (
	// reservationWait is how long a submission waits for another one with the same dedup_key that
	// is under way. One whose process died can be taken over after 10 s.
	reservationWait  = 11 * time.Second
	reservationPause = 20 * time.Millisecond
	// queueRetry, storeRetry and busRetry are when a refused submission is of use again, in
	// seconds.
	queueRetry = 10
	storeRetry = 60
	busRetry   = 1
)

// maxReservations is the number of tries to reserve a dedup_key whose owner has ended.
const maxReservations = 20

// The answers to a submission.
const (
	statusQueued = "queued"
	statusJoined = "joined"
)

// Refusal is why a request is refused: a status as in HTTP, a message for people, and when to try
// again.
type Refusal = httpserve.Refusal //nolint:errname // refusal is the word for it everywhere

// Request submits an alert.
type Request struct {
	AlertType string
	Chain     string // wins over the type
	// Data is the alert's text; AlertID that of a stored alert instead. Alert is that alert where
	// the caller has it.
	Data    string
	AlertID string
	Alert   *alert.Alert
	Runbook string
	// Servers narrow the MCP servers, and Selection is that as it was submitted.
	Servers     []config.Selection
	Selection   json.RawMessage
	Fingerprint string
	// DedupKey is that of the stored alert where it is empty.
	DedupKey string
	// Author is one of the constants above, or a person's name.
	Author string
	// IdempotencyKey gives the same answer to the same request, which BodyDigest identifies.
	IdempotencyKey, BodyDigest string
	// byTrigger separates the keys of triggers from those that clients choose.
	byTrigger bool
}

// triggerScope begins the stored Idempotency-Keys of triggers. It is not UTF-8, as the key of a client
// must be: so a client can neither meet nor use the key of an alert.
const triggerScope = "\xfftrigger "

// storedIdempotencyKey returns the key under which the answer is stored.
func (r Request) storedIdempotencyKey() string {
	if r.byTrigger {
		return triggerScope + r.IdempotencyKey
	}
	return r.IdempotencyKey
}

// Answer is the answer to a submission.
type Answer struct {
	SessionID string `json:"session_id"`
	Status    string `json:"status"`
	Message   string `json:"message,omitempty"`
}

// Joined reports whether the alert became a note of an open session.
func (a Answer) Joined() bool { return a.Status == statusJoined }

// alertFinder finds a stored alert by its id, as it was stored last, and reports whether there is
// one.
type alertFinder func(ctx context.Context, id string) (alert.Alert, bool, error)

// submitter submits sessions: for REST, triggers, and requests on the bus.
type submitter struct {
	journal *journal.Journal
	texts   *journal.TextStore
	log     *sessionLog
	index   *index
	config  func() *config.Config
	alerts  alertFinder
	// mask masks the text of an alert.
	mask   func(string) string
	joins  *joins
	now    func() time.Time
	logger *slog.Logger
	// queueWithin bounds queueing a stored session.
	queueWithin time.Duration

	mu sync.Mutex
	// underWay are sessions that this process has admitted, and the index may not have yet.
	underWay map[string]admitted
	// keys are the Idempotency-Keys of requests under way. A channel is closed when its request
	// ends.
	keys map[string]chan struct{}
}

// Submit stores a session and queues it, or joins the alert to an open session with the same
// dedup_key. Its error wraps a [*Refusal].
func (s *submitter) Submit(ctx context.Context, r Request) (Answer, error) {
	a, err := s.submit(ctx, r)
	if err == nil {
		return a, nil
	}
	if httpserve.AsRefusal(err) != nil {
		return Answer{}, err
	}
	s.logger.Warn("an alert could not be submitted", "error", err)
	if errors.Is(err, journal.ErrFull) {
		return Answer{}, &limitError{trigger.ReasonStoreFull, explainStore(err)}
	}
	return Answer{}, explainStore(err)
}

// explainStore returns the refusal for an error of the bus.
func explainStore(err error) *Refusal {
	if errors.Is(err, journal.ErrFull) {
		return httpserve.Refuse(http.StatusServiceUnavailable, "the store of investigation sessions is full: raise system.retention.max_bytes, or wait until ended sessions are deleted").Retry(storeRetry)
	}
	if errors.Is(err, journal.ErrTooLarge) {
		return httpserve.Refuse(http.StatusRequestEntityTooLarge, "the alert, with the servers and tools that it chooses, is too large to be stored")
	}
	if errors.Is(err, errIndexing) {
		return httpserve.Refuse(http.StatusServiceUnavailable, errIndexing.Error()).Retry(busRetry)
	}
	return httpserve.Refuse(http.StatusServiceUnavailable, "the bus does not answer right now: "+err.Error()).Retry(busRetry)
}

func (s *submitter) submit(ctx context.Context, r Request) (Answer, error) {
	if r.IdempotencyKey != "" {
		if err := checkIdempotencyKey(r.IdempotencyKey); err != nil {
			return Answer{}, err
		}
		unlock, err := s.lockKey(ctx, r.storedIdempotencyKey())
		if err != nil {
			return Answer{}, err
		}
		defer unlock()
		stored, known, err := s.journal.Recall(ctx, r.storedIdempotencyKey(), r.BodyDigest)
		if err != nil {
			return Answer{}, explainKey(err)
		}
		if known {
			return s.repeat(ctx, r, stored)
		}
	}
	submitted, err := s.prepare(ctx, &r)
	if err != nil {
		return Answer{}, err
	}
	return s.store(ctx, r, submitted)
}

// lockKey waits until no other request of this process with the Idempotency-Key is under way:
// several would count for the bound of the queue.
func (s *submitter) lockKey(ctx context.Context, key string) (unlock func(), err error) {
	for {
		s.mu.Lock()
		other := s.keys[key]
		if other == nil {
			ended := make(chan struct{})
			s.keys[key] = ended
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.keys, key)
				close(ended)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-other:
		}
	}
}

func checkIdempotencyKey(key string) error {
	if n := utf8.RuneCountInString(key); n < 1 || n > maxIdempotencyKey || !utf8.ValidString(key) {
		return badRequest("Idempotency-Key must have 1 to %d characters", maxIdempotencyKey)
	}
	return nil
}

func explainKey(err error) error {
	if errors.Is(err, journal.ErrOther) {
		return httpserve.Refuse(http.StatusConflict, "the Idempotency-Key was used for another request: use a new key for it")
	}
	return err
}

// repeat answers a request whose Idempotency-Key is known. The process that stored the answer may
// have ended before it stored the session, its place in the queue or the note, which is then done now. A note may be there
// twice then.
func (s *submitter) repeat(ctx context.Context, r Request, stored journal.Remembered) (Answer, error) {
	var a Answer
	if err := json.Unmarshal(stored.Answer, &a); err != nil {
		return Answer{}, fmt.Errorf("read the stored answer to an Idempotency-Key: %w", err)
	}
	if stored.Done {
		return a, nil
	}
	asked := r
	if !a.Joined() {
		last, err := s.journal.Last(ctx, a.SessionID)
		if err != nil {
			return Answer{}, err
		}
		if last.Seq > 0 {
			// It may have no place in the queue yet. One that has begun or ended takes no harm.
			if err := s.enqueue(ctx, a.SessionID, 1); err != nil {
				return Answer{}, err
			}
			s.confirm(ctx, asked)
			return a, nil
		}
		if s.expired(a.SessionID) {
			return a, nil
		}
	}
	r.IdempotencyKey = "" // its answer is stored
	if r.AlertID != "" || r.Alert != nil {
		r.Data = "" // prepare may have set it before
	}
	submitted, err := s.prepare(ctx, &r)
	if err != nil {
		return Answer{}, err
	}
	if a.Joined() {
		// One that ended since can't take the alert, but an answer that is stored stays.
		if _, err := s.joins.add(ctx, a.SessionID, r.Data); err != nil {
			return Answer{}, err
		}
		s.confirm(ctx, asked)
		return a, nil
	}
	submitted.ID = a.SessionID
	joined, own, err := s.claim(ctx, r, a.SessionID)
	if err != nil || !own { // another request came in between
		return joined, err
	}
	if err := s.append(ctx, submitted, r.Data); err != nil {
		return Answer{}, err
	}
	if err := s.enqueue(ctx, a.SessionID, 1); err != nil {
		return Answer{}, err
	}
	s.confirm(ctx, asked)
	return a, nil
}

// confirm notes that a request took effect, so that its repetition changes nothing.
func (s *submitter) confirm(ctx context.Context, r Request) {
	if r.IdempotencyKey == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)
	defer cancel()
	if err := s.journal.Confirm(ctx, r.storedIdempotencyKey(), r.BodyDigest); err != nil {
		s.logger.Info("a request with an Idempotency-Key could not be confirmed; its repetition looks whether it took effect", "error", err)
	}
}

// store reserves the dedup_key, admits the session, and stores it.
func (s *submitter) store(ctx context.Context, r Request, submitted session.Submitted) (Answer, error) {
	submitted.ID = journal.NewSession()
	joined, own, err := s.claim(ctx, r, submitted.ID)
	if err != nil || !own {
		return joined, err
	}
	return s.storeNew(ctx, r, submitted)
}

// remember stores the answer to a request with an Idempotency-Key. known means that the same
// request was answered meanwhile.
func (s *submitter) remember(ctx context.Context, r Request, a Answer) (stored Answer, known bool, err error) {
	if r.IdempotencyKey == "" {
		return a, false, nil
	}
	data, err := json.Marshal(a)
	if err != nil {
		return Answer{}, false, fmt.Errorf("encode an answer: %w", err)
	}
	earlier, known, err := s.journal.Remember(ctx, r.storedIdempotencyKey(), r.BodyDigest, data)
	if err != nil || !known {
		return a, false, explainKey(err)
	}
	stored, err = s.repeat(ctx, r, earlier)
	return stored, true, err
}

// storeNew stores a session that owns its dedup_key.
func (s *submitter) storeNew(ctx context.Context, r Request, submitted session.Submitted) (answer Answer, err error) {
	free := true
	defer func() {
		if !free || r.DedupKey == "" {
			return
		}
		// Also where the client left: others would wait for 10 s.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeTimeout)
		defer cancel()
		last, err := s.journal.Last(ctx, submitted.ID)
		if err == nil && last.Seq > 0 { // it was stored as a repetition, and keeps the key
			return
		}
		if err == nil {
			err = s.journal.Free(ctx, r.DedupKey, submitted.ID, 1)
		}
		if err != nil {
			s.logger.Info("a dedup_key could not be freed; it is taken over after 10 s", "error", err)
		}
	}()
	if err := s.admit(ctx, submitted); err != nil {
		return Answer{}, err
	}
	defer func() {
		if free {
			s.leave(submitted.ID)
		}
	}()
	answer = Answer{SessionID: submitted.ID, Status: statusQueued, Message: "The alert is queued for investigation."}
	stored, known, err := s.remember(ctx, r, answer)
	if err != nil || known {
		return stored, err
	}
	// What came before may have taken longer than the reservation lasts. It is renewed here, or another
	// session has the key by now.
	joined, own, err := s.claim(ctx, r, submitted.ID)
	if err != nil || !own {
		return joined, err
	}
	if err := s.append(ctx, submitted, r.Data); err != nil {
		return Answer{}, err
	}
	free = false
	if err := s.enqueue(ctx, submitted.ID, 1); err != nil {
		return Answer{}, err
	}
	s.confirm(ctx, r)
	return answer, nil
}

// freeTimeout bounds freeing a dedup_key after a failure, confirmTimeout confirming an answer, and
// enqueueTimeout queueing a stored session. The first pause between its tries is minEnqueuePause; it
// doubles.
const (
	freeTimeout     = 2 * time.Second
	confirmTimeout  = time.Second
	enqueueTimeout  = 3 * time.Second
	minEnqueuePause = 20 * time.Millisecond
)

// append stores the session's first message.
func (s *submitter) append(ctx context.Context, submitted session.Submitted, data string) error {
	text, apart := session.NewText(data)
	if apart {
		if _, err := s.texts.Put(ctx, submitted.ID, []byte(data)); err != nil {
			return err
		}
	}
	submitted.Data = text
	message, err := session.Encode([]session.Fact{{Time: s.now(), Submitted: &submitted}})
	if err != nil {
		return err
	}
	_, err = s.journal.Append(ctx, submitted.ID, 0, message)
	switch {
	case err == nil, errors.Is(err, journal.ErrConflict): // the same request, by another process
	case errors.Is(err, journal.ErrFull), errors.Is(err, journal.ErrTooLarge):
		return err
	default: // it may be stored
		last, lastErr := s.journal.Last(context.WithoutCancel(ctx), submitted.ID)
		if lastErr != nil || last.Seq == 0 {
			return err
		}
	}
	return nil
}

// enqueue queues an attempt of a stored session. It tries again within queueWithin, also where the
// client left. Then the error wraps a refusal: the session stays, and the sweep queues it.
func (s *submitter) enqueue(ctx context.Context, id string, attempt int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.queueWithin)
	defer cancel()
	for wait := minEnqueuePause; ; wait *= 2 {
		err := s.journal.Enqueue(ctx, id, attempt)
		if err == nil {
			return nil
		}
		if pause(ctx, wait) != nil {
			s.logger.Warn("a session is stored, but could not be queued; the next sweep queues it", "session", id, "error", err)
			hint := "; the same request with the same Idempotency-Key or dedup_key finds it"
			if attempt > 1 { // another retry is refused
				hint = ", without another retry"
			}
			return httpserve.Refuse(http.StatusServiceUnavailable, "session "+id+" is stored, but can't be queued right now: it is queued within 10 s once the bus can do so"+hint).Retry(busRetry)
		}
	}
}

// expired reports whether a session is so old that it may have been deleted, where nothing says
// whether it was ever stored.
func (s *submitter) expired(id string) bool {
	parsed, err := ulid.ParseStrict(id)
	return err != nil || s.now().Sub(parsed.Timestamp()) > time.Duration(s.config().System.Retention.Sessions)
}

// digestOf identifies the body of a request.
func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
