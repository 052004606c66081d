// Package journal stores investigation sessions on the bus: the log of each session, its long
// texts, the queue of sessions that wait for a worker, and what belongs to no single session
// (the keys of open sessions, answers to repeated requests, the lease of the sweep).
//
// It knows nothing of what a message of a log means: that is package session's. It enforces
// what the bus can: a message is appended only after the one that its writer knew, and a claim
// on a session ends before the bus gives the session to another worker.
package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Errors.
var (
	// ErrSession is returned for a session id that is no ULID. Such an id never reaches a
	// subject.
	ErrSession = errors.New("not the id of an investigation session")
	// ErrConflict is returned when a session has messages that the writer did not know. Read
	// them and decide again.
	ErrConflict = errors.New("the session has newer facts")
	// ErrFull is returned when the store has no room for a new session, or for a message.
	ErrFull = errors.New("the store of investigation sessions is full")
	// ErrTooLarge is returned for a message over [MaxMessage], or a text over [MaxText].
	ErrTooLarge = errors.New("too large to be stored")
	// ErrMissing is returned when a text or a part of it is not stored.
	ErrMissing = errors.New("the text is not stored")
	// ErrDamaged is returned when a stored text does not have its digest.
	ErrDamaged = errors.New("the stored text is damaged")
)

// Journal stores investigation sessions through one connection. It is safe for concurrent use.
type Journal struct {
	bus *bus.Session
	log *slog.Logger
}

// New returns the journal of a connection, whose role must be [bus.RoleInvestigator]. It asks
// the bus nothing.
func New(c *bus.Session, log *slog.Logger) *Journal { return &Journal{bus: c, log: log} }

// NewSession returns the id of a new session. The ids of one process rise with the time; those
// of several processes do to the millisecond.
func NewSession() string {
	entropy.Lock()
	defer entropy.Unlock()
	return ulid.MustNew(ulid.Now(), entropy.source).String()
}

// entropy is the random part of the ids. It can't be guessed: the boundaries of the fences around
// texts of others come from it. Ids of one millisecond rise.
var entropy = struct {
	sync.Mutex
	source *ulid.MonotonicEntropy
}{source: ulid.Monotonic(rand.Reader, 0)}

// CheckSession returns nil for a session's id as [NewSession] makes it: the 26 characters of a
// ULID, in upper case. Otherwise the error wraps [ErrSession].
func CheckSession(id string) error {
	parsed, err := ulid.ParseStrict(id)
	if err == nil && parsed.String() != id {
		err = errors.New("it is not in upper case")
	}
	if err != nil {
		return fmt.Errorf("%w: %.40q: %w", ErrSession, id, err)
	}
	return nil
}
