package delivery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// saveRetry is the pause after a failed attempt to store a position. It is short: until
// the position is stored, another reader of the client may deliver the same alerts.
const saveRetry = 200 * time.Millisecond

// positionSaver stores the client's newest position, and retries until it is stored.
type positionSaver struct {
	claim func(context.Context, bus.Position) (before bus.Position, err error)
	jobs  chan saveJob
	log   *slog.Logger
	// logged is the text of the last error in a row, which is logged once.
	logged string
}

type saveJob struct {
	position bus.Position
	done     chan<- saveResult
}

// saveResult is the outcome of one attempt, and the stored position before it.
type saveResult struct {
	before bus.Position
	err    error
}

func newPositionSaver(claim func(context.Context, bus.Position) (bus.Position, error), log *slog.Logger) *positionSaver {
	return &positionSaver{claim: claim, jobs: make(chan saveJob), log: log}
}

// save returns after the first attempt, with the stored position before it. When that
// failed, more attempts follow.
func (s *positionSaver) save(ctx context.Context, p bus.Position) (before bus.Position, err error) {
	done := make(chan saveResult, 1)
	select {
	case s.jobs <- saveJob{position: p, done: done}:
	case <-ctx.Done():
		return bus.Position{}, busclient.ErrShutdown
	}
	select {
	case result := <-done:
		return result.before, result.err
	case <-ctx.Done():
		return bus.Position{}, busclient.ErrShutdown
	}
}

// run stores positions until ctx ends.
func (s *positionSaver) run(ctx context.Context) error {
	var unsaved *bus.Position
	retry := time.NewTicker(saveRetry)
	defer retry.Stop()
	for {
		var done chan<- saveResult
		select {
		case <-ctx.Done():
			return nil
		case job := <-s.jobs:
			unsaved, done = &job.position, job.done
		case <-retry.C:
		}
		if unsaved == nil {
			continue
		}
		before, err := s.attempt(ctx, *unsaved)
		if err == nil {
			unsaved = nil
		}
		if done != nil {
			done <- saveResult{before, err} // has room for one
		}
	}
}

func (s *positionSaver) attempt(ctx context.Context, p bus.Position) (before bus.Position, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inbox.ClaimTimeout)
	defer cancel()
	before, err = s.claim(ctx, p)
	switch {
	case err == nil:
		s.logged = ""
	case errors.Is(err, busclient.ErrUnreachable): // the session logs the end of the connection
	case err.Error() != s.logged:
		s.logged = err.Error()
		s.log.Warn("cannot store the inbox position yet", "error", err)
	}
	return before, err
}
