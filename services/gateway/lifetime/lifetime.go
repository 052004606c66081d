// Package lifetime ends the service of a client in two steps: it stops accepting,
// and then aborts.
//
// Between the two, calls that wait for something are released and calls under way are
// answered. It knows nothing of what is served.
package lifetime

import (
	"context"
	"errors"
	"sync"
	"time"
)

var (
	// ErrTimeout is returned by [Within] when the time is up.
	ErrTimeout = errors.New("timed out")
	// ErrShutdown is returned by what is asked for after the end.
	ErrShutdown = errors.New("the gateway is shutting down")
)

// Lifetime is shared by everything that serves one client.
type Lifetime struct {
	ctx      context.Context
	abort    context.CancelFunc
	stopping chan struct{}
	stop     func()
}

// New returns a lifetime that ends only by [Lifetime.Abort]. It takes the values of
// ctx, and not its end.
func New(ctx context.Context) *Lifetime {
	ctx, abort := context.WithCancel(context.WithoutCancel(ctx))
	stopping := make(chan struct{})
	return &Lifetime{ctx: ctx, abort: abort, stopping: stopping, stop: sync.OnceFunc(func() { close(stopping) })}
}

// Context ends when the lifetime is aborted.
func (l *Lifetime) Context() context.Context { return l.ctx }

// Stopping is closed by [Lifetime.StopAccepting].
func (l *Lifetime) Stopping() <-chan struct{} { return l.stopping }

// StopAccepting releases calls that wait for something, so that they are answered.
func (l *Lifetime) StopAccepting() { l.stop() }

// Abort ends everything. It implies StopAccepting.
func (l *Lifetime) Abort() {
	l.stop()
	l.abort()
}

// Call returns the context of a call. It ends when the client cancels the call, or when
// the lifetime is aborted. The end of stdin alone does not end it: a client that writes
// requests into a pipe and closes it still reads the answers.
func (l *Lifetime) Call(call context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(l.ctx)
	stop := context.AfterFunc(call, func() {
		select {
		case <-l.stopping:
		default:
			cancel()
		}
	})
	return ctx, func() { stop(); cancel() }
}

// Within calls f and waits for it, but not longer than limit: a client that stopped
// reading can block a write to it until the process ends. Its error is f's, or
// [ErrTimeout]; f then goes on in the background.
func Within(limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return ErrTimeout
	}
}
