package feed

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// minBackoff and maxBackoff bound the pause after an error, before jitter. With jitter it
	// is 1 to 30 s.
	minBackoff = time.Second
	maxBackoff = 25 * time.Second
	// maxRequestedPause bounds the pause that a server asks for.
	maxRequestedPause = time.Minute
)

// Health is the health of the connection to the API server.
type Health struct {
	// Errors is the number of consecutive errors, 0 once a request works.
	Errors int
	// Err is the newest of them.
	Err error
}

// connection counts consecutive errors and determines the pause before the next request.
// It is safe for concurrent use: the feed, client-go's RetryWatcher and a relayed watch each
// use it from a goroutine of their own.
type connection struct {
	mu     sync.Mutex
	errors int
	// isWorking is set if the last reported health has no error.
	isWorking bool
	pause     time.Duration
}

// failed records an error and returns the health to report.
func (c *connection) failed(err error) Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isWorking = false
	c.errors++
	c.pause = backoff(c.errors)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		c.pause = max(c.pause, min(time.Duration(seconds)*time.Second, maxRequestedPause))
	}
	return Health{Errors: c.errors, Err: Explained(err)}
}

// succeeded records that the connection works and reports whether that is a change.
func (c *connection) succeeded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := !c.isWorking
	if changed {
		c.isWorking, c.errors, c.pause = true, 0, 0
	}
	return changed
}

// answered records that a request was answered, so that the next one need not wait. It does not
// reset the count of errors: only a watch that works does.
func (c *connection) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pause = 0
}

func (c *connection) hasErrors() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.errors > 0
}

// wait waits for the pause, or returns the cause of ctx.
func (c *connection) wait(ctx context.Context) error {
	c.mu.Lock()
	pause := c.pause
	c.mu.Unlock()
	if pause == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// backoff returns the pause after a number of consecutive errors. It doubles with each one,
// plus up to a fifth at random, so that many clients don't retry at once.
func backoff(errors int) time.Duration {
	pause := minBackoff << min(errors-1, 10)
	pause = min(pause, maxBackoff)
	return pause + rand.N(pause/5) //nolint:gosec // guessing it gains nothing
}

// failed records an error and reports it.
func (f *Feed) failed(ctx context.Context, err error) error {
	return f.report(ctx, f.conn.failed(err))
}

// succeeded reports that the connection works, if it did not before.
func (f *Feed) succeeded(ctx context.Context) error {
	if !f.conn.succeeded() {
		return nil
	}
	return f.report(ctx, Health{})
}

func (f *Feed) report(ctx context.Context, h Health) error {
	select {
	case f.cfg.Health <- h:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
