package notify

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// sink is where notices go. deliver returns soon after ctx has ended, and its
// error has no secret of the settings in it. It is called by one goroutine.
type sink interface {
	deliver(ctx context.Context, d delivery) error
}

// outlet stands before one sink: what it does, however slow, is nobody else's
// concern.
type outlet struct {
	name string
	// bound is how long one delivery may take.
	bound time.Duration
	sink  sink
	queue chan delivery
	log   *slog.Logger

	sent, failed, dropped atomic.Uint64
	// full is the courier's, failing is run's: a state is logged when it begins
	// and when it ends.
	full, failing bool
}

func newOutlet(name string, bound time.Duration, s sink, log *slog.Logger) *outlet {
	return &outlet{name: name, bound: bound, sink: s, queue: make(chan delivery, queued), log: log.With("sink", name)}
}

// offer puts a delivery into the queue, or drops it.
func (o *outlet) offer(d delivery) {
	select {
	case o.queue <- d:
		o.full = false
	default:
		o.dropped.Add(1)
		if !o.full {
			o.full = true
			o.log.Warn("notices are dropped: the sink is too slow", "waiting", queued)
		}
	}
}

// run delivers until the queue is closed and empty. Once ctx has ended, what is
// left counts as dropped.
func (o *outlet) run(ctx context.Context) {
	for d := range o.queue {
		if ctx.Err() != nil {
			o.dropped.Add(1)
			continue
		}
		try, cancel := context.WithTimeout(ctx, o.bound)
		err := o.sink.deliver(try, d)
		cancel()
		if err != nil && ctx.Err() != nil {
			o.dropped.Add(1) // it was the end that failed it
			continue
		}
		o.note(err)
	}
	if n := o.dropped.Load(); n > 0 {
		o.log.Warn("notices were not delivered", "count", n)
	}
}

// note counts, and logs when failing begins or ends.
func (o *outlet) note(err error) {
	if err != nil {
		o.failed.Add(1)
		if !o.failing {
			o.log.Warn("notices are not delivered", "error", err)
		}
		o.failing = true
		return
	}
	o.sent.Add(1)
	if o.failing {
		o.log.Info("notices are delivered again", "failed", o.failed.Load())
	}
	o.failing = false
}

// errStuck says that a sink has not come back from an earlier delivery.
var errStuck = errors.New("it still hangs at an earlier one")

// detached runs what knows no context, at most one at a time: where it hangs,
// it alone waits.
type detached struct{ under chan struct{} }

func newDetached() detached { return detached{under: make(chan struct{}, 1)} }

func (t detached) run(ctx context.Context, f func() error) error {
	select {
	case t.under <- struct{}{}:
	default:
		return errStuck
	}
	done := make(chan error, 1)
	go func() {
		err := f()
		<-t.under
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
