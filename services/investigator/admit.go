package investigator

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/trigger"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
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
