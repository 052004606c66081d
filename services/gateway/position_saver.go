package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// saveRetry is the pause after a try to save that failed. It is short: until the
// place is saved another reader of the client may tell the same.
const saveRetry = 200 * time.Millisecond

// saver saves the client's place in the alerts, the newest one, until it is saved.
type saver struct {
	link *link
	jobs chan saveJob
	log  *slog.Logger
}

type saveJob struct {
	at   inbox.Position
	done chan<- saved
}

// saved is what came of a try to save, and where the cursor was before.
type saved struct {
	before inbox.Position
	err    error
}

func newSaver(l *link, log *slog.Logger) *saver {
	return &saver{link: l, jobs: make(chan saveJob), log: log}
}

// save returns once a try to save was made, with where the cursor was before.
// Where it failed, more are made.
func (s *saver) save(ctx context.Context, at inbox.Position) (before inbox.Position, err error) {
	done := make(chan saved, 1)
	select {
	case s.jobs <- saveJob{at: at, done: done}:
	case <-ctx.Done():
		return inbox.Position{}, errEnded
	}
	select {
	case got := <-done:
		return got.before, got.err
	case <-ctx.Done():
		return inbox.Position{}, errEnded
	}
}

// run saves until ctx ends.
func (s *saver) run(ctx context.Context) error {
	var unsaved *inbox.Position
	retry := time.NewTicker(saveRetry)
	defer retry.Stop()
	for {
		var done chan<- saved
		select {
		case <-ctx.Done():
			return nil
		case job := <-s.jobs:
			unsaved, done = &job.at, job.done
		case <-retry.C:
		}
		if unsaved == nil {
			continue
		}
		before, err := s.try(ctx, *unsaved)
		if err == nil {
			unsaved = nil
		}
		if done != nil {
			done <- saved{before, err} // has room for one
		}
	}
}

func (s *saver) try(ctx context.Context, at inbox.Position) (before inbox.Position, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inbox.ClaimTimeout)
	defer cancel()
	c := s.link.conn.Load()
	if c == nil || !c.Connected() {
		return inbox.Position{}, bus.ErrAway
	}
	before, err = s.link.claim(ctx, c, at)
	if err != nil {
		s.log.Warn("the cursor is not saved yet", "error", err)
	}
	return before, err
}
