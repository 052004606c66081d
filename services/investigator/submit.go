package investigator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
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
	"github.com/tocsin-bus/tocsin/shared/sanitize"
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
		unlock, err := s.lockKey(ctx, r.IdempotencyKey)
		if err != nil {
			return Answer{}, err
		}
		defer unlock()
		stored, known, err := s.journal.Recall(ctx, r.IdempotencyKey, r.BodyDigest)
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
	if err := s.journal.Confirm(ctx, r.IdempotencyKey, r.BodyDigest); err != nil {
		s.logger.Info("a request with an Idempotency-Key could not be confirmed; its repetition looks whether it took effect", "error", err)
	}
}

// prepare checks a request, and returns the first fact of its session without the id and the
// text. It sets the request's text and its dedup_key, both masked.
func (s *submitter) prepare(ctx context.Context, r *Request) (session.Submitted, error) {
	if err := checkRequest(r); err != nil {
		return session.Submitted{}, err
	}
	if err := s.checkNames(r.Servers); err != nil {
		return session.Submitted{}, err
	}
	cfg := s.config()
	alertType := r.AlertType
	if alertType == "" {
		alertType = cfg.Defaults.AlertType
	}
	plan, err := cfg.Plan(config.PlanRequest{Chain: r.Chain, AlertType: alertType, Servers: r.Servers, RunbookURL: r.Runbook})
	if err != nil {
		return session.Submitted{}, httpserve.Refuse(http.StatusBadRequest, err.Error())
	}
	stored, err := s.storedAlert(ctx, r)
	if err != nil {
		return session.Submitted{}, err
	}
	if stored != nil {
		text, err := json.Marshal(stored)
		if err != nil {
			return session.Submitted{}, fmt.Errorf("encode alert %s: %w", stored.ID, err)
		}
		r.Data = string(text)
		if r.DedupKey == "" {
			r.DedupKey = stored.DedupKey
		}
	}
	submitted := session.Submitted{
		AlertType: alertType, Author: r.Author, Selection: r.Selection, Fingerprint: r.Fingerprint, Runbook: r.Runbook, Plan: plan,
	}
	for _, text := range []*string{&r.Data, &submitted.AlertType, &submitted.Fingerprint, &submitted.Runbook} {
		if *text, err = s.masked(*text); err != nil {
			return session.Submitted{}, err
		}
	}
	if err := s.maskPlan(&submitted.Plan); err != nil {
		return session.Submitted{}, err
	}
	r.DedupKey = s.storedKey(r.DedupKey)
	submitted.DedupKey, submitted.Alert = r.DedupKey, s.maskedAlert(stored, r.Data)
	return submitted, nil
}

// checkNames refuses servers and tools whose names have a secret: a selection is stored as it was
// sent, and masked names would select nothing.
func (s *submitter) checkNames(servers []config.Selection) error {
	for i, server := range servers {
		for _, name := range append([]string{server.Name}, server.Tools...) {
			masked, err := s.masked(name)
			if err != nil {
				return err
			}
			if masked != name {
				return badRequest("mcp.servers[%d]: the name of the server or of one of its tools contains a secret, or what masking takes for one: it would be stored", i)
			}
		}
	}
	return nil
}

// maskPlan masks the texts of a plan that a model reads. They come from the configuration, or from
// the environment that it names.
func (s *submitter) maskPlan(plan *session.Plan) (err error) {
	texts := []*string{&plan.Runbook, &plan.RunbookURL}
	agent := func(a *session.Agent) {
		texts = append(texts, &a.Instructions)
		for i := range a.Servers {
			texts = append(texts, &a.Servers[i].Instructions)
		}
	}
	for _, stage := range plan.Stages {
		for i := range stage.Agents {
			agent(&stage.Agents[i])
		}
		if stage.Synthesis != nil {
			agent(stage.Synthesis)
		}
	}
	for _, text := range texts {
		if *text, err = s.masked(*text); err != nil {
			return err
		}
	}
	return nil
}

// storedKey returns a dedup_key as sessions store it.
func (s *submitter) storedKey(key string) string { return maskedKey(s.mask, key) }

// maskedKey returns a dedup_key as it is stored. One with a secret is masked, and begins with its
// digest: equal keys stay equal, and different ones different. Masking it again changes nothing.
func maskedKey(mask func(string) string, key string) (masked string) {
	sum := sha256.Sum256([]byte(key))
	// No pattern takes the parts for a secret.
	digest := fmt.Sprintf("%x-%x-%x-%x", sum[:4], sum[4:8], sum[8:12], sum[12:16])
	defer func() {
		if recover() != nil { // it can't be masked
			masked = digest
		}
	}()
	if masked = mask(key); masked == key {
		return key
	}
	return sanitize.Cut(digest+" "+masked, maxDedupKey)
}

// masked returns the masked text. What can't be masked is not stored.
func (s *submitter) masked(text string) (masked string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = httpserve.Refuse(http.StatusInternalServerError, "a text of the session can't be masked, so the session is not stored")
		}
	}()
	return s.mask(text), nil
}

// maskedAlert returns the alert with its texts masked. Where masking broke the JSON, only what
// identifies the alert is kept.
func (s *submitter) maskedAlert(a *alert.Alert, masked string) *alert.Alert {
	if a == nil {
		return nil
	}
	kept := &alert.Alert{}
	if json.Unmarshal([]byte(masked), kept) != nil {
		kept = &alert.Alert{}
	}
	kept.ID, kept.Severity, kept.Category, kept.Timestamp = a.ID, a.Severity, a.Category, a.Timestamp
	kept.Source, kept.App, kept.DedupKey, kept.CorrelationID = a.Source, a.App, s.storedKey(a.DedupKey), a.CorrelationID
	return kept
}

func checkRequest(r *Request) error {
	hasAlert := r.AlertID != "" || r.Alert != nil
	for _, text := range []struct{ name, value string }{
		{"alert_type", r.AlertType}, {"chain", r.Chain}, {"data", r.Data}, {"alert_id", r.AlertID}, {"runbook", r.Runbook},
		{"slack_message_fingerprint", r.Fingerprint}, {"dedup_key", r.DedupKey},
	} {
		if !utf8.ValidString(text.value) {
			return badRequest("%s is not UTF-8", text.name)
		}
	}
	switch {
	case r.Data == "" && !hasAlert:
		return badRequest("data or alert_id is missing: send the alert's data, or the id of a stored alert")
	case r.Data != "" && hasAlert:
		return badRequest("data and alert_id exclude each other: send one of them")
	case len(r.Data) > maxData:
		return httpserve.Refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("data has %d bytes, and may have %d", len(r.Data), maxData))
	case !hasAlert && isEmptyData(r.Data):
		return badRequest("data is empty: send what is known of the alert")
	case len(r.AlertType) > maxName:
		return badRequest("alert_type may have %d bytes", maxName)
	case len(r.Chain) > maxName:
		return badRequest("chain may have %d bytes", maxName)
	case len(r.DedupKey) > maxDedupKey:
		return badRequest("dedup_key may have %d bytes", maxDedupKey)
	case len(r.Fingerprint) > maxFingerprint:
		return badRequest("slack_message_fingerprint may have %d bytes", maxFingerprint)
	}
	return nil
}

func isEmptyData(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" {
		return true
	}
	var object map[string]json.RawMessage
	return text[0] == '{' && len(text) < 100 && json.Unmarshal([]byte(text), &object) == nil && len(object) == 0
}

func badRequest(format string, args ...any) *Refusal {
	return httpserve.Refuse(http.StatusBadRequest, fmt.Sprintf(format, args...))
}

// storedAlert returns the alert that the request names, or nil.
func (s *submitter) storedAlert(ctx context.Context, r *Request) (*alert.Alert, error) {
	if r.Alert != nil {
		return r.Alert, nil
	}
	if r.AlertID == "" {
		return nil, nil
	}
	a, found, err := s.alerts(ctx, r.AlertID)
	if err != nil {
		return nil, fmt.Errorf("look up alert %s: %w", r.AlertID, err)
	}
	if !found {
		return nil, httpserve.Refuse(http.StatusNotFound, "there is no stored alert with this alert_id")
	}
	return &a, nil
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

// claim makes a session the owner of the request's dedup_key. own is false where an open session is;
// then the alert has joined that one.
func (s *submitter) claim(ctx context.Context, r Request, id string) (joined Answer, own bool, err error) {
	if r.DedupKey == "" {
		return Answer{}, true, nil
	}
	for range maxReservations {
		owner, err := s.reserve(ctx, r.DedupKey, id, 1)
		if err != nil || owner == "" {
			return Answer{}, err == nil, err
		}
		joined, ended, err := s.join(ctx, owner, r)
		if !ended {
			return joined, false, err
		}
		// Its worker has not freed the key yet.
		if err := s.freeEnded(ctx, r.DedupKey, owner); err != nil {
			return Answer{}, false, err
		}
	}
	return Answer{}, false, fmt.Errorf("reserve the dedup_key: %w", journal.ErrBusy)
}

// reserve makes an attempt of the session the owner of a dedup_key, or returns the session that is.
func (s *submitter) reserve(ctx context.Context, key, id string, attempt int) (owner string, err error) {
	deadline := s.now().Add(reservationWait)
	for {
		owner, ok, err := s.journal.Reserve(ctx, key, id, attempt)
		if err != nil || ok {
			return "", err
		}
		last, err := s.journal.Last(ctx, owner)
		if err != nil || last.Seq > 0 {
			return owner, err
		}
		// The other request is under way, or its process ended.
		if s.now().After(deadline) {
			return "", fmt.Errorf("reserve the dedup_key: %w", journal.ErrBusy)
		}
		if err := pause(ctx, reservationPause); err != nil {
			return "", err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// join notes the alert in an open session. ended means that the session is over, and the alert is
// not noted.
func (s *submitter) join(ctx context.Context, id string, r Request) (a Answer, ended bool, err error) {
	err = s.log.view(ctx, id, func(owner *session.Session) error { ended = owner.Ended(); return nil })
	if errors.Is(err, errNoSession) {
		return Answer{}, true, nil // deleted
	}
	if err != nil || ended {
		return Answer{}, ended, err
	}
	a = Answer{SessionID: id, Status: statusJoined}
	if stored, known, err := s.remember(ctx, r, a); err != nil || known {
		return stored, false, err
	}
	open, err := s.joins.add(ctx, id, r.Data)
	if err == nil {
		s.confirm(ctx, r)
	}
	// One that ended since can't take the alert, but an answer that is stored stays.
	return a, err == nil && !open && r.IdempotencyKey == "", err
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
	earlier, known, err := s.journal.Remember(ctx, r.IdempotencyKey, r.BodyDigest, data)
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
		if err := s.journal.Free(ctx, r.DedupKey, submitted.ID, 1); err != nil {
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

// admitted is a session that this process has admitted.
type admitted struct {
	at time.Time
	// rated means that it counts for max_per_hour.
	rated bool
}

// limitError is the refusal of a session over a limit.
type limitError struct {
	reason trigger.Reason
	*Refusal
}

// Unwrap returns the refusal.
func (e *limitError) Unwrap() error { return e.Refusal }

// startWait is how long a submission waits while the stored sessions are being read.
const startWait = 5 * time.Second

// underWayTime is how long an admitted session may be missing in the index.
const underWayTime = 30 * time.Second

// admit checks that there is room for one more session. Until the index has it, or leave is called,
// the session counts as one that waits.
func (s *submitter) admit(ctx context.Context, submitted session.Submitted) error {
	cfg := s.config()
	waiting, cancel := context.WithTimeoutCause(ctx, startWait, errIndexing)
	defer cancel()
	if err := s.index.awaitReady(waiting); err != nil { // the bounds count what is stored
		return err
	}
	if err := s.index.await(ctx); err != nil { // what other processes stored too
		return err
	}
	if err := s.journal.Admit(ctx, int64(cfg.System.Retention.MaxBytes)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	rated := 0
	for id, a := range s.underWay {
		switch {
		case s.index.has(id) || now.Sub(a.at) > underWayTime:
			delete(s.underWay, id)
		case a.rated:
			rated++
		}
	}
	if n := s.index.waiting() + len(s.underWay); n >= cfg.Queue.MaxQueuedSessions {
		return &limitError{trigger.ReasonQueueFull, httpserve.Refuse(http.StatusTooManyRequests, fmt.Sprintf("the queue is full: %d sessions wait", n)).Retry(queueRetry)}
	}
	a := admitted{now, countsForRate(submitted.Author)}
	if a.rated {
		times := s.index.startedByThemselves(now.Add(-rateWindow))
		if n := len(times) + rated; n >= cfg.Queue.MaxPerHour {
			wait := rateWindow // until so many count no more that there is room; those under way are the newest
			if leave := n - cfg.Queue.MaxPerHour; leave < len(times) {
				wait = times[leave].Add(rateWindow).Sub(now)
			}
			return &limitError{trigger.ReasonLimit, httpserve.Refuse(http.StatusTooManyRequests, fmt.Sprintf("triggers and MCP have started %d sessions in the last hour, and max_per_hour is %d", n, cfg.Queue.MaxPerHour)).
				Retry(max(1, int(math.Ceil(wait.Seconds()))))}
		}
	}
	s.underWay[submitted.ID] = a
	return nil
}

// leave forgets an admitted session that was not stored.
func (s *submitter) leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.underWay, id)
}

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
			return httpserve.Refuse(http.StatusServiceUnavailable, "session "+id+" is stored, but can't be queued right now: it is queued within 10 s once the bus can do so; the same request with the same Idempotency-Key or dedup_key finds it").Retry(busRetry)
		}
	}
}

// reserveAgain makes the next attempt of an ended session the owner of its dedup_key. It refuses
// where another open session has it.
func (s *submitter) reserveAgain(ctx context.Context, key, id string, attempt int) error {
	for range maxReservations {
		owner, err := s.reserve(ctx, key, id, attempt)
		if err != nil || owner == "" {
			return err
		}
		open := false
		err = s.log.view(ctx, owner, func(other *session.Session) error { open = !other.Ended(); return nil })
		if err != nil && !errors.Is(err, errNoSession) {
			return err
		}
		if open {
			return httpserve.Refuse(http.StatusConflict, "another open session has the dedup_key of this one: "+owner)
		}
		if err := s.freeEnded(ctx, key, owner); err != nil {
			return err
		}
	}
	return fmt.Errorf("reserve the dedup_key: %w", journal.ErrBusy)
}

// freeEnded frees the dedup_key of a session that has ended or was deleted. It waits a moment where
// the session may be about to start again.
func (s *submitter) freeEnded(ctx context.Context, key, id string) error {
	attempt := 0
	err := s.log.view(ctx, id, func(owner *session.Session) error {
		if owner.Ended() {
			attempt = owner.Attempt()
		}
		return nil
	})
	if errors.Is(err, errNoSession) {
		attempt = math.MaxInt
	} else if err != nil {
		return err
	}
	if attempt == 0 { // it was started again: the caller finds it open
		return nil
	}
	if err := s.journal.FreeEnded(ctx, key, id, attempt); err != nil {
		return err
	}
	owner, err := s.journal.Owner(ctx, key)
	if err != nil || owner != id {
		return err
	}
	return pause(ctx, reservationPause)
}

// freeUnlessOpen frees the dedup_key of a session whose retry failed, unless another retry made it
// pending.
func (s *submitter) freeUnlessOpen(ctx context.Context, key, id string, attempt int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeTimeout)
	defer cancel()
	open := true
	err := s.log.view(ctx, id, func(own *session.Session) error { open = !own.Ended(); return nil })
	if err == nil && !open {
		err = s.journal.Free(ctx, key, id, attempt)
	}
	if err != nil {
		s.logger.Info("a dedup_key could not be freed; the next session with it takes it over", "session", id, "error", err)
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
