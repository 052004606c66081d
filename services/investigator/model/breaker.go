package model

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The bounds of a breaker.
const (
	// BreakerFailures in a row open a breaker.
	BreakerFailures = 5
	// BreakerPause is the time from the opening, or a failed trial, to the next trial.
	BreakerPause = 30 * time.Second
)

// Breaker keeps requests from a provider that fails. After [BreakerFailures] failures in a row
// it is open; then it permits one request, the trial, each [BreakerPause]. A success closes it.
//
// Every failed request counts, apart from those that the provider refused: a refusal is about
// the request, and shows that the provider answers, so that it counts as a success. A request
// that its own caller canceled counts as neither. The zero value is a closed breaker.
type Breaker struct {
	mu       sync.Mutex
	failures int
	// next is the time of the next trial of an open breaker.
	next  time.Time
	trial bool
}

// Allow reports whether a request may be sent. If so, the caller calls done once with its
// outcome. If not, done is nil and wait is the time until the next trial may be possible.
func (b *Breaker) Allow(now time.Time) (done func(now time.Time, err error), wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < BreakerFailures {
		return func(now time.Time, err error) { b.done(now, err, false) }, 0
	}
	if b.trial {
		return nil, BreakerPause
	}
	if now.Before(b.next) {
		return nil, b.next.Sub(now)
	}
	b.trial = true
	return func(now time.Time, err error) { b.done(now, err, true) }, 0
}

// Open reports whether the breaker is open.
func (b *Breaker) Open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures >= BreakerFailures
}

func (b *Breaker) done(now time.Time, err error, trial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial {
		b.trial = false
	}
	var failure *Error
	switch {
	case err == nil:
		b.failures = 0
	case !errors.As(err, &failure) || errors.Is(err, context.Canceled):
	case failure.Kind == Refused:
		b.failures = 0
	case b.failures < BreakerFailures:
		b.failures++
		b.next = now.Add(BreakerPause)
	case trial: // failures of requests that began before the opening don't delay the trial
		b.next = now.Add(BreakerPause)
	}
}
