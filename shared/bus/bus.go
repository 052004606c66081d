// Package bus is Tocsin's side of NATS: the subjects, streams and buckets as tables, the
// permissions of each role, sessions that survive every interruption, acknowledged
// publishing, and reading streams in order.
//
// A service keeps a [Session] with [Run]. On a session it publishes with a [Publisher],
// reads streams with [Session.Follow], [Session.Range] and [Session.ReadToEnd] from a
// [Position] on, and changes the keys of buckets as a [Document]. Rights that one of
// several processes has for a while are in package lease.
//
// The package knows nothing of what events and alerts mean. Package embedded runs the
// server.
package bus

import (
	"errors"
	"time"
)

var (
	// ErrUnreachable is returned when the bus can't be reached right now. The session
	// keeps trying.
	ErrUnreachable = errors.New("the bus is unreachable")
	// ErrClosed is returned when the connection of a session was closed for good, as it
	// is when the bus no longer knows its key. Only a new session helps: see [Run].
	ErrClosed = errors.New("the connection to the bus is closed")
	// ErrUnacknowledged is returned when the bus is reachable and does not acknowledge a
	// message in time. The message may be stored.
	ErrUnacknowledged = errors.New("the bus does not acknowledge: its disk may be full or failing")
	// ErrStore is returned when the server in this process can't write its store. It must
	// be restarted once the cause is gone.
	ErrStore = errors.New("the bus can't write its store")
	// ErrKey is returned when a role's key can't be used: its file is missing or damaged,
	// or the bus does not know it.
	ErrKey = errors.New("the key for the bus can't be used")
	// ErrUntrusted is returned when TLS with the bus fails: one side does not trust the
	// certificate of the other.
	ErrUntrusted = errors.New("no TLS with the bus")
	// ErrBusy is returned while too many messages are not acknowledged yet.
	ErrBusy = errors.New("the bus is busy: too many messages wait for their acknowledgement")
	// ErrRefused is returned when the bus does not store a message: a full disk, a stream
	// at its limit, a missing stream, a missing permission.
	ErrRefused = errors.New("the bus refused the message")
	// ErrConflict is returned when a document was changed by another process in between.
	ErrConflict = errors.New("another process has changed it")
	// ErrIncomplete is returned when a stream was not read to its end in time.
	ErrIncomplete = errors.New("there is more than can be read in this time")
	// ErrStop is returned by a handler of messages to end the reading without an error.
	ErrStop = errors.New("stop reading")
)

// queryTimeout is how long a service may take to answer a request.
const queryTimeout = 2 * time.Second

// investigateTimeout is how long an investigator may take to answer a request, which may
// wait 50 s for the end of a session.
const investigateTimeout = time.Minute
