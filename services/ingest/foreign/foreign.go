// Package foreign is what the decoders of other people's formats have in
// common: how much one request may hold, and how to say that it holds more.
//
// A decoder turns a payload into events, CI results or alerts and does nothing
// else. It knows no HTTP, bus or clock, and masks nothing: that is the
// intake's, and the same for all. Any error but ErrTooMany is a sender's mistake
// and becomes the text of a refusal.
package foreign

import "errors"

const (
	// MaxItems is how many events, or things to make events of, one request may
	// hold.
	MaxItems = 10_000
	// MaxParts is how many values a decoder takes apart for them: objects, lists
	// and the like. It bounds the memory that a small body can grow to.
	MaxParts = 200_000
	// MaxDepth is how deep these may be nested.
	MaxDepth = 64
)

// ErrTooMany says that a request holds more than a decoder takes. An error that
// wraps it names the bound.
var ErrTooMany = errors.New("send smaller batches")
