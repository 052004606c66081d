package bus

import "time"

// Position is a place in a stream: after the message with sequence Seq, in the stream
// that was created at Created. The zero Position is before the first message of a stream
// that is not known.
type Position struct {
	Seq     uint64    `json:"seq"`
	Created time.Time `json:"created"`
}

// IsZero reports whether p is the zero Position.
func (p Position) IsZero() bool { return p.Seq == 0 && p.Created.IsZero() }

// SameStream reports whether both positions are in the same stream. A stream that was
// deleted and created again is another one: its sequences start over.
func (p Position) SameStream(q Position) bool { return p.Created.Equal(q.Created) }

// After reports whether p is further on than q. A position in another stream always is:
// the former stream is gone.
func (p Position) After(q Position) bool { return !p.SameStream(q) || p.Seq > q.Seq }

// InStream returns p where its stream was created at created, and the beginning of that stream
// where p is in another one.
func (p Position) InStream(created time.Time) Position {
	if p.Created.Equal(created) {
		return p
	}
	return Position{Created: created}
}

// At returns the position of another message of the same stream.
func (p Position) At(seq uint64) Position { return Position{Seq: seq, Created: p.Created} }

// Stamp identifies one stored message by its sequence and arrival time, for roles that may
// not ask when a stream was created. Stamps are comparable.
type Stamp struct {
	Seq uint64
	// UnixNano is the arrival time in nanoseconds since 1970.
	UnixNano int64
}
