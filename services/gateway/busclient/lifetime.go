package busclient

import (
	"context"
	"errors"
	"sync"
)

// ErrShutdown is returned to a client that asks for something after the end.
var ErrShutdown = errors.New("the gateway is shutting down")

// Lifetime ends the service of a client in two steps. It first stops accepting: calls
// that wait are released, and calls under way are answered. Then it aborts. Everything
// that serves the client shares one.
type Lifetime struct {
	ctx      context.Context
	abort    context.CancelFunc
	stopping chan struct{}
	stop     func()
}

// NewLifetime returns a lifetime that ends only by [Lifetime.Abort]. It takes the values of
// ctx, and not its end.
func NewLifetime(ctx context.Context) *Lifetime {
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
