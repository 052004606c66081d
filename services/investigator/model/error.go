package model

import (
	"fmt"
	"time"
)

// Kind is the kind of failure of an [Error], and so what helps.
type Kind string

// The kinds.
const (
	// Refused is a request that the same provider will refuse again: 400, 401, 403, 404.
	Refused Kind = "refused"
	// Limited is 429 or its like. See Error.RetryAfter.
	Limited Kind = "limited"
	// Unavailable is 408, 5xx, overload, or a connection that failed.
	Unavailable Kind = "unavailable"
	// Silent means that the first chunk, or the next one, did not come in time.
	Silent Kind = "silent"
	// Cut means that a stream ended before its end.
	Cut Kind = "cut"
	// Malformed is an answer that can't be read.
	Malformed Kind = "malformed"
)

// Error is a failed request to a model.
type Error struct {
	Kind Kind
	// Status is the HTTP status, or 0.
	Status int
	// RetryAfter is how long the provider asks to wait, or 0 where it does not say.
	RetryAfter time.Duration
	// Later reports that RetryAfter is longer than a [Client] waits, or than it may: the same provider
	// may be asked again then.
	Later bool
	// Usage is what the provider counted for the request before it failed, or zero where it sent no
	// count. From a [Client] it is the sum over all tries.
	Usage Usage
	// Message is the provider's text, at most 500 characters, without the key. It is not
	// masked otherwise.
	Message string
	Cause   error
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("the model's provider answered %d: %s", e.Status, e.Message)
	}
	return "the model's provider: " + e.Message
}

// Unwrap returns the cause, which may be nil.
func (e *Error) Unwrap() error { return e.Cause }

// later returns the error with Later set.
func (e *Error) later() *Error {
	later := *e
	later.Later = true
	return &later
}

// Retry reports whether the same provider may answer the same request later.
func (e *Error) Retry() bool { return e.Kind != Refused }

// TooManyArguments returns the error of a call whose arguments are over [MaxArgumentBytes].
func TooManyArguments() *Error {
	return &Error{Kind: Malformed, Message: fmt.Sprintf("the arguments of a call are over %d KiB", MaxArgumentBytes>>10)}
}
