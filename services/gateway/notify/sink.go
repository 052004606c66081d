package notify

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// sink is a destination of notices. deliver is called by one goroutine and returns soon
// after ctx ends. Its error contains no secret of the settings.
type sink interface {
	deliver(ctx context.Context, d delivery) error
}

// sinkWorker delivers to one sink from a queue, so that a slow sink delays nothing else.
type sinkWorker struct {
	name string
	// timeout bounds one delivery.
	timeout time.Duration
	sink    sink
	queue   chan delivery
	log     *slog.Logger

	sent, failed, dropped atomic.Uint64
	// full is set while the queue is full, failing while deliveries fail: each change is
	// logged once. The dispatcher's goroutine uses full, run's goroutine failing.
	full, failing bool
}

func newSinkWorker(name string, timeout time.Duration, s sink, log *slog.Logger) *sinkWorker {
	return &sinkWorker{name: name, timeout: timeout, sink: s, queue: make(chan delivery, sinkQueue), log: log.With("sink", name)}
}

// enqueue queues a delivery, or drops it if the queue is full.
func (w *sinkWorker) enqueue(d delivery) {
	select {
	case w.queue <- d:
		w.full = false
	default:
		w.dropped.Add(1)
		if !w.full {
			w.full = true
			w.log.Warn("notices are dropped: the sink is too slow", "waiting", sinkQueue)
		}
	}
}

// run delivers until the queue is closed and empty. Once ctx ends, it drops the rest.
func (w *sinkWorker) run(ctx context.Context) {
	for d := range w.queue {
		if ctx.Err() != nil {
			w.dropped.Add(1)
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, w.timeout)
		err := w.sink.deliver(attempt, d)
		cancel()
		if err != nil && ctx.Err() != nil {
			w.dropped.Add(1) // it failed because ctx ended
			continue
		}
		w.record(err)
	}
	if n := w.dropped.Load(); n > 0 {
		w.log.Warn("notices were not delivered", "count", n)
	}
}

// record counts a delivery, and logs when failures begin or end.
func (w *sinkWorker) record(err error) {
	if err != nil {
		w.failed.Add(1)
		if !w.failing {
			w.log.Warn("notices are not delivered", "error", err)
		}
		w.failing = true
		return
	}
	w.sent.Add(1)
	if w.failing {
		w.log.Info("notices are delivered again", "failed", w.failed.Load())
	}
	w.failing = false
}

// errStuck is returned while an earlier delivery has not returned.
var errStuck = errors.New("an earlier delivery still hangs")

// serialRunner runs functions that accept no context, at most one at a time. A function that
// hangs blocks only those after it.
type serialRunner struct{ running chan struct{} }

func newSerialRunner() serialRunner { return serialRunner{running: make(chan struct{}, 1)} }

func (r serialRunner) run(ctx context.Context, f func() error) error {
	select {
	case r.running <- struct{}{}:
	default:
		return errStuck
	}
	done := make(chan error, 1)
	go func() {
		err := f()
		<-r.running
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
