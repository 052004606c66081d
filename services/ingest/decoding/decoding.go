// Package decoding is what the decoders of foreign formats share: how much one request may
// hold, and how to read JSON as many programs write it.
//
// A decoder turns a body into events, CI results or alerts, and does nothing else: it knows
// no HTTP, bus or clock, and masks nothing. Each of its errors but ErrTooMany is a mistake
// of the sender and becomes the text of a refusal.
package decoding

import "errors"

const (
	// MaxItems is how many items that become events one request may hold.
	MaxItems = 10_000
	// MaxParts is how many objects, lists and other values a decoder reads for them. It
	// bounds the memory that a small body can grow to.
	MaxParts = 200_000
	// MaxDepth is how deep these may be nested.
	MaxDepth = 64
)

// ErrTooMany is wrapped by an error that names a bound which a request exceeds.
var ErrTooMany = errors.New("send smaller batches")
