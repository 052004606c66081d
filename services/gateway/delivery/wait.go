package delivery

import (
	"context"
	"errors"
	"time"
)

// Outcome is why a wait has ended.
type Outcome int

// The outcomes.
const (
	// TimeUp: no alert became pending in time.
	TimeUp Outcome = iota
	// AlertPending: an alert of the rank is pending.
	AlertPending
	// CallEnded: the call was cancelled, or the gateway stopped accepting.
	CallEnded
)

// ErrNoAlert is returned when the time was up, or the context had ended, before an alert
// was pending. Nothing was delivered, and less severe alerts stay pending.
var ErrNoAlert = errors.New("no alert came")

// forever is longer than any process lives.
const forever = 100 * 365 * 24 * time.Hour

// Wait returns when an alert of that rank is pending, the time is up, the call has
// ended or the gateway stops accepting.
func (c *Client) Wait(call context.Context, rank int, limit time.Duration) (Outcome, error) {
	if limit <= 0 {
		return TimeUp, nil
	}
	pending := make(chan struct{})
	err := c.Do(func(s *State, _ time.Time) {
		if s.pending(rank) {
			close(pending)
			return
		}
		c.loop.waiters[pending] = rank
	})
	if err != nil {
		return CallEnded, err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	outcome := CallEnded
	select {
	case <-pending:
		return AlertPending, nil
	case <-timer.C:
		outcome = TimeUp
	case <-c.life.Stopping():
	case <-call.Done():
	}
	return outcome, c.Do(func(*State, time.Time) { delete(c.loop.waiters, pending) })
}

// WaitAndTake waits until an alert of that rank is pending, and takes all pending alerts. If
// another reader of the client takes them first, it waits for the next. The error is
// [ErrNoAlert] if ctx ends before.
func (c *Client) WaitAndTake(ctx context.Context, rank int) (block string, err error) {
	select {
	case <-c.caughtUp: // all of the past is delivered at once
	case <-ctx.Done():
		return "", ErrNoAlert
	}
	for {
		outcome, err := c.Wait(ctx, rank, forever)
		if err != nil {
			return "", err
		}
		if outcome != AlertPending || ctx.Err() != nil {
			return "", ErrNoAlert
		}
		// Once claimed, no other reader delivers the alerts, so the claim may exceed the time
		// by a second or two (inbox.ClaimTimeout).
		if block, err := c.Take(context.WithoutCancel(ctx)); block != "" || err != nil {
			return block, err
		}
	}
}
