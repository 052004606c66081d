// Package decoding has what the decoders of foreign formats share: bounds of one request,
// and lenient reading of JSON.
//
// A decoder turns a body into events, CI results or alerts, and does nothing else: it knows
// no HTTP, bus or clock, and masks nothing. Its errors are mistakes of the sender, who
// receives their text.
package decoding

import "errors"

const (
	// MaxItems is how many items that become events one request may hold.
	MaxItems = 10_000
	// MaxParts is how many objects, lists and other values the items of one request may
	// consist of. It bounds the memory that a small body can grow to.
	MaxParts = 200_000
	// MaxDepth is how deep objects and lists may be nested.
	MaxDepth = 64
)

// ErrTooMany is wrapped by errors that name a bound which a request exceeds. Its text
// completes "more than N items: ...".
var ErrTooMany = errors.New("send smaller batches")
