// Package bus is Tocsin's side of NATS: the subjects, streams and buckets as tables, the
// permissions of each role, connections that survive every interruption, acknowledged
// publishing, and reading streams in order.
//
// It knows nothing of what events and alerts mean. Package embedded runs the server.
package bus

import (
	"errors"
	"time"
)

var (
	// ErrAway says that the bus can't be reached right now. It may come back;
	// the connection keeps trying.
	ErrAway = errors.New("the bus is away")
	// ErrUnacknowledged says that the bus is there and did not say in time that
	// it has stored a message: it may have.
	ErrUnacknowledged = errors.New("the bus does not acknowledge: its disk may be full or failing")
	// ErrStore says that the embedded server can't write its store. It has to be
	// started anew, once the cause is gone.
	ErrStore = errors.New("the bus can't write its store")
	// ErrKey says that a role's key on the bus can't be used: its file is missing
	// or damaged, or the bus does not know it.
	ErrKey = errors.New("the key for the bus can't be used")
	// ErrUntrusted says that the bus is there and TLS with it fails: its certificate
	// is not one to trust, or it does not trust ours.
	ErrUntrusted = errors.New("no TLS with the bus")
	// ErrBusy says that the bound of unacknowledged messages is reached. It
	// passes as soon as acknowledgements arrive.
	ErrBusy = errors.New("the bus is busy: too many messages wait for their acknowledgement")
	// ErrRefused says that the bus answered and would not store the message: a
	// full disk, a stream at its limit, a missing stream, a missing permission.
	ErrRefused = errors.New("the bus refused the message")
)

// queryTimeout is how long a service may take to answer a request.
const queryTimeout = 2 * time.Second
