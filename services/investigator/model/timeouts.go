package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Timeouts bound one request to a model. A zero value is [DefaultTimeouts].
type Timeouts struct {
	// FirstChunk is the time from the request to the first chunk.
	FirstChunk time.Duration
	// BetweenChunks is the time from one chunk to the next.
	BetweenChunks time.Duration
	// Call is the time of the whole request.
	Call time.Duration
}

// DefaultTimeouts returns the time-outs of an entry that sets none.
func DefaultTimeouts() Timeouts {
	return Timeouts{FirstChunk: 120 * time.Second, BetweenChunks: 60 * time.Second, Call: 5 * time.Minute}
}

func (t Timeouts) withDefaults() Timeouts {
	d := DefaultTimeouts()
	if t.FirstChunk > 0 {
		d.FirstChunk = t.FirstChunk
	}
	if t.BetweenChunks > 0 {
		d.BetweenChunks = t.BetweenChunks
	}
	if t.Call > 0 {
		d.Call = t.Call
	}
	return d
}

// WithTimeouts returns a model that ends a request of m that is silent for too long, with an
// [*Error] of kind [Silent]. The time that the reader of the chunks takes counts only for
// Timeouts.Call. It works by cancellation: Generate of m must end when its context does.
func WithTimeouts(m Model, t Timeouts) Model { return timed{model: m, timeouts: t.withDefaults()} }

type timed struct {
	model    Model
	timeouts Timeouts
}

// silence is the cause of a cancellation by a time-out.
type silence struct{ message string }

func (s *silence) Error() string { return s.message }

// Generate implements [Model].
func (m timed) Generate(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		t := m.timeouts
		call, stop := context.WithTimeoutCause(ctx, t.Call, &silence{fmt.Sprintf("the answer was not complete after %s (timeouts.call)", t.Call)})
		defer stop()
		inner, cancel := context.WithCancelCause(call)
		defer cancel(nil)
		late := &silence{fmt.Sprintf("no chunk within %s (timeouts.first_chunk)", t.FirstChunk)}
		timer := time.AfterFunc(t.FirstChunk, func() { cancel(late) })
		defer func() { timer.Stop() }()
		for c, err := range m.model.Generate(inner, r) {
			timer.Stop()
			if err != nil {
				yield(Chunk{}, timedOut(ctx, inner, err))
				return
			}
			if !yield(c, nil) || c.Done != nil {
				return
			}
			next := &silence{fmt.Sprintf("no further chunk within %s (timeouts.between_chunks)", t.BetweenChunks)}
			timer = time.AfterFunc(t.BetweenChunks, func() { cancel(next) })
		}
	}
}

// timedOut returns the error of a request that a time-out ended, or err.
func timedOut(outer, inner context.Context, err error) error {
	if outer.Err() != nil {
		return err
	}
	if s, ok := context.Cause(inner).(*silence); ok { //nolint:errorlint // the cause is set above, unwrapped
		late := &Error{Kind: Silent, Message: s.message, Cause: err}
		var failure *Error
		if errors.As(err, &failure) {
			late.Usage = failure.Usage
		}
		return late
	}
	return err
}
