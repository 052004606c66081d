package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// fullPercent is the share of the store's limit at which new sessions are refused. The rest is
// for sessions that are under way.
const fullPercent = 95

// Usage returns how many bytes sessions and their texts take in the store.
func (j *Journal) Usage(ctx context.Context) (int64, error) {
	var total uint64
	for _, stream := range []string{bus.StreamInvestigations, bus.StreamInvestigationTexts} {
		st, err := j.bus.State(ctx, stream)
		if err != nil {
			return 0, fmt.Errorf("measure the store of sessions: %w", err)
		}
		total += st.Bytes
	}
	return int64(total), nil
}

// Admit returns an error that wraps [ErrFull] where the store has reached 95% of maxBytes, at
// which a new session is refused.
func (j *Journal) Admit(ctx context.Context, maxBytes int64) error {
	used, err := j.Usage(ctx)
	if err != nil {
		return err
	}
	if used >= admitted(maxBytes) {
		return fmt.Errorf("%w: %d of %d bytes are used, and new sessions are refused from %d%% on", ErrFull, used, maxBytes, fullPercent)
	}
	return nil
}

// admitted is the size from which new sessions are refused.
func admitted(maxBytes int64) int64 { return maxBytes/100*fullPercent + maxBytes%100*fullPercent/100 }

// orphanAge is how old a session without a log must be before its texts are deleted: older than a
// request with an Idempotency-Key, whose repetition may still store it.
const orphanAge = 25 * time.Hour

// DeleteOrphans deletes the texts of sessions that were never stored, because their process died in
// between, or that were deleted in part. has reports whether a session is known to be stored. It
// returns the number of such sessions.
func (j *Journal) DeleteOrphans(ctx context.Context, now time.Time, has func(session string) bool) (int, error) {
	subjects, err := j.bus.Subjects(ctx, bus.StreamInvestigationTexts, bus.InvestigationTextSubject("*", "*", "*"))
	if err != nil {
		return 0, fmt.Errorf("look for texts without a session: %w", err)
	}
	seen, n := map[string]bool{}, 0
	for subject := range subjects {
		session, _, _ := strings.Cut(strings.TrimPrefix(subject, bus.InvestigationSubject("")), ".")
		id, err := ulid.ParseStrict(session)
		if err != nil || seen[session] || now.Sub(id.Timestamp()) < orphanAge || has(session) {
			continue
		}
		seen[session] = true
		last, err := j.Last(ctx, session)
		if err != nil {
			return n, err
		}
		if last.Seq > 0 {
			continue
		}
		if err := j.bus.Purge(ctx, bus.StreamInvestigationTexts, bus.InvestigationTextSubject(session, "*", "*")); err != nil {
			return n, fmt.Errorf("delete the texts of session %s: %w", session, err)
		}
		n++
	}
	return n, nil
}

// Delete deletes a session: its messages in the queue, its texts and its log, which goes last,
// so that a session that was deleted in part is still found and deleted again. Deleting a
// session that does not exist is no error.
func (j *Journal) Delete(ctx context.Context, session string) error {
	if err := CheckSession(session); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	for _, purge := range []struct{ stream, subject string }{
		{bus.StreamInvestigationQueue, bus.InvestigationQueueSubject(session, "*")},
		{bus.StreamInvestigationTexts, bus.InvestigationTextSubject(session, "*", "*")},
		{bus.StreamInvestigations, bus.InvestigationSubject(session)},
	} {
		if err := j.bus.Purge(ctx, purge.stream, purge.subject); err != nil {
			return fmt.Errorf("delete session %s: %w", session, err)
		}
	}
	return nil
}

func isMissing(err error) bool { return errors.Is(err, ErrMissing) }
