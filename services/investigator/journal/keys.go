package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/lease"
)

// reservationAge is how old a reservation must be before another session may take it over
// where its session has no facts: the process that made it has died before it submitted the
// session. Submitting takes milliseconds.
const reservationAge = 10 * time.Second

// maxReserve is the number of tries of one reservation while others change it.
const maxReserve = 10

var (
	// ErrOther is returned when an Idempotency-Key was used for another request.
	ErrOther = errors.New("the Idempotency-Key was used for another request")
	// ErrBusy is returned when a key is being changed by others all the time.
	ErrBusy = errors.New("other processes are changing the key")
)

// bucketKey returns the key of a bucket for a name of any characters.
func bucketKey(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// Reserve makes an attempt of a session the owner of a dedup_key. ok is false where the key has
// another owner, which is returned: an open session, to which the alert belongs. A reservation of
// the same session again succeeds. Reserve before the attempt's first message is appended; a
// reservation whose session has none after 10 s is taken over. So reserve again where that took
// longer than some seconds: it succeeds, and the 10 s begin again, or another session came in
// between.
func (j *Journal) Reserve(ctx context.Context, key, session string, attempt int) (owner string, ok bool, err error) {
	return j.reserve(ctx, key, session, attempt, reservationAge)
}

// ownership is the value of a key. The attempt stands in it, so that the end of one attempt does not
// free the key of the next.
func ownership(session string, attempt int) []byte {
	if attempt <= 1 {
		return []byte(session)
	}
	return []byte(session + "/" + strconv.Itoa(attempt))
}

func parseOwnership(data []byte) (session string, attempt int) {
	session, number, _ := strings.Cut(string(data), "/")
	if attempt, err := strconv.Atoi(number); err == nil && attempt > 1 {
		return session, attempt
	}
	return session, 1
}

func (j *Journal) reserve(ctx context.Context, key, session string, attempt int, age time.Duration) (owner string, ok bool, err error) {
	if err := CheckSession(session); err != nil {
		return "", false, fmt.Errorf("reserve a dedup_key: %w", err)
	}
	doc := j.bus.Document(bus.BucketInvestigatorKeys, bucketKey(key))
	value := ownership(session, attempt)
	// It is free most of the time.
	_, err = doc.Write(ctx, value, 0)
	for range maxReserve {
		if err == nil {
			return session, true, nil
		}
		if !errors.Is(err, bus.ErrConflict) {
			return "", false, fmt.Errorf("reserve a dedup_key for session %s: %w", session, err)
		}
		entry, err2 := j.reservation(ctx, key)
		if err2 != nil {
			return "", false, fmt.Errorf("reserve a dedup_key for session %s: %w", session, err2)
		}
		held, heldAttempt := parseOwnership(entry.Data)
		switch {
		case entry.Seq == 0: // freed meanwhile
			_, err = doc.Write(ctx, value, 0)
			continue
		case held == session && heldAttempt >= attempt && time.Since(entry.Time) < age/2:
			return session, true, nil
		case held == session: // for the next attempt, or to renew it
			value = ownership(session, max(attempt, heldAttempt))
		case CheckSession(held) == nil:
			if time.Since(entry.Time) < age {
				return held, false, nil
			}
			last, err := j.Last(ctx, held)
			if err != nil {
				return "", false, fmt.Errorf("reserve a dedup_key for session %s: %w", session, err)
			}
			if last.Seq > 0 {
				return held, false, nil
			}
		}
		// Its process died before it submitted the session.
		_, err = doc.Write(ctx, value, entry.Seq)
	}
	return "", false, fmt.Errorf("reserve a dedup_key for session %s: %w", session, ErrBusy)
}

// Owner returns the session that owns a dedup_key, empty for none.
func (j *Journal) Owner(ctx context.Context, key string) (string, error) {
	entry, err := j.reservation(ctx, key)
	if err != nil {
		return "", fmt.Errorf("read the owner of a dedup_key: %w", err)
	}
	owner, _ := parseOwnership(entry.Data)
	return owner, nil
}

// reservation reads a key at the leader: a replica may not know of a reservation yet.
func (j *Journal) reservation(ctx context.Context, key string) (bus.Message, error) {
	m, found, err := j.bus.NewestAtLeader(ctx, bus.StreamInvestigatorKeys, "$KV."+bus.BucketInvestigatorKeys+"."+bucketKey(key))
	if err != nil || !found {
		return bus.Message{}, err
	}
	return m, nil
}

// Free ends the ownership of a dedup_key at the end of an attempt of a session, if that or an
// earlier attempt of it still owns the key.
func (j *Journal) Free(ctx context.Context, key, session string, attempt int) error {
	return j.free(ctx, key, session, func(held int, _ time.Time) bool { return held <= attempt })
}

// FreeEnded is [Journal.Free] for a session that was found ended after the given attempt. A
// reservation for the next one is freed too where it is older than 10 s: the process that wanted to
// start the session again has died.
func (j *Journal) FreeEnded(ctx context.Context, key, session string, attempt int) error {
	return j.free(ctx, key, session, func(held int, at time.Time) bool { return held <= attempt || time.Since(at) >= reservationAge })
}

func (j *Journal) free(ctx context.Context, key, session string, over func(attempt int, at time.Time) bool) error {
	entry, err := j.reservation(ctx, key)
	if err != nil {
		return fmt.Errorf("free the dedup_key of session %s: %w", session, err)
	}
	held, attempt := parseOwnership(entry.Data)
	if entry.Seq == 0 || held != session || !over(attempt, entry.Time) {
		return nil
	}
	// The message is deleted by its sequence: a newer reservation stays, and no marker is left.
	if err := j.bus.Delete(ctx, bus.StreamInvestigatorKeys, entry.Seq); err != nil {
		return fmt.Errorf("free the dedup_key of session %s: %w", session, err)
	}
	return nil
}

// remembered is the document of one Idempotency-Key.
type remembered struct {
	// Body is the digest of the request's body.
	Body   string          `json:"body"`
	Answer json.RawMessage `json:"answer"`
	// Done means that the request took effect.
	Done bool `json:"done,omitempty"`
}

// Remembered is the stored answer to a request with an Idempotency-Key.
type Remembered struct {
	Answer []byte
	// Done reports whether the request is known to have taken effect, by [Journal.Confirm]. Otherwise
	// the process that stored the answer may have died before.
	Done bool
}

// Remember stores the answer, JSON, to a request with an Idempotency-Key for 24 h, before the
// request takes effect. Where the key is known it returns the stored answer and true: the
// request was made before, maybe by a process that died before it took effect, so the caller
// repeats what is missing of it. The error wraps [ErrOther] where the key was used with
// another body.
func (j *Journal) Remember(ctx context.Context, key, bodyDigest string, answer []byte) (stored Remembered, known bool, err error) {
	data, err := json.Marshal(remembered{Body: bodyDigest, Answer: answer})
	if err != nil {
		return Remembered{}, false, fmt.Errorf("remember an answer: %w", err)
	}
	_, err = j.answer(key).Write(ctx, data, 0)
	if err == nil {
		return Remembered{Answer: answer}, false, nil
	}
	if !errors.Is(err, bus.ErrConflict) {
		return Remembered{}, false, fmt.Errorf("remember an answer: %w", err)
	}
	return j.Recall(ctx, key, bodyDigest)
}

// Confirm notes that a request whose answer is stored took effect. Its 24 h begin again.
func (j *Journal) Confirm(ctx context.Context, key, bodyDigest string) error {
	m, r, err := j.recall(ctx, key, bodyDigest)
	if err != nil || m.Seq == 0 || r.Done {
		return err
	}
	r.Done = true
	data, err := json.Marshal(r)
	if err == nil {
		_, err = j.answer(key).Write(ctx, data, m.Seq)
	}
	if err != nil && !errors.Is(err, bus.ErrConflict) { // another process confirmed it
		return fmt.Errorf("confirm an answer: %w", err)
	}
	return nil
}

func (j *Journal) answer(key string) bus.Document {
	return j.bus.Document(bus.BucketInvestigatorAnswers, bucketKey(key))
}

// Recall returns the answer that [Journal.Remember] has stored under an Idempotency-Key, and
// whether there is one. The error wraps [ErrOther] as there.
func (j *Journal) Recall(ctx context.Context, key, bodyDigest string) (stored Remembered, known bool, err error) {
	m, r, err := j.recall(ctx, key, bodyDigest)
	if err != nil || m.Seq == 0 {
		return Remembered{}, false, err
	}
	return Remembered{Answer: r.Answer, Done: r.Done}, true, nil
}

// recall returns the message of an answer and what it says; the zero message for none.
func (j *Journal) recall(ctx context.Context, key, bodyDigest string) (m bus.Message, r remembered, err error) {
	m, found, err := j.bus.NewestAtLeader(ctx, "KV_"+bus.BucketInvestigatorAnswers, "$KV."+bus.BucketInvestigatorAnswers+"."+bucketKey(key))
	if err != nil {
		return m, r, fmt.Errorf("recall an answer: %w", err)
	}
	if !found {
		return bus.Message{}, r, nil
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return m, r, fmt.Errorf("recall an answer: %w", err)
	}
	if r.Body != bodyDigest {
		return m, r, ErrOther
	}
	return m, r, nil
}

// The keys of the leases.
const (
	sweepLease    = "sweep"
	triggersLease = "triggers"
)

// SweepLease returns the lease of the process that queues what was forgotten, for
// [lease.Config] with [bus.InvestigatorTTL] and the process's id as its value.
func (j *Journal) SweepLease(process string) lease.Store { return j.lease(sweepLease, process) }

// TriggersLease returns the lease of the process that reads alerts for the triggers, as
// [Journal.SweepLease] does.
func (j *Journal) TriggersLease(process string) lease.Store { return j.lease(triggersLease, process) }

func (j *Journal) lease(key, process string) lease.Store {
	return lease.InBucket(j.bus.Document(bus.BucketInvestigatorLeases, key), func(value []byte) bool { return string(value) == process })
}
