// Package sequencer decides which alert is delivered next, so that each is delivered once
// and in order, whatever happens on the way: live messages that never arrive, a bus that
// restarts, a replica that lags behind the others, a stream that was recreated.
//
// It sees only stamps of messages, which tell a stream from another one that starts its
// sequences again. It knows no bus, no alert and no clock. Its caller reports what is
// published, reads the stream where [Sequencer.Wanted] says so, and delivers what the
// methods return.
package sequencer

import "time"

// remembered is how many of the newest stamps are kept. Whether an older stamp is of the
// same stream is decided by its time.
const remembered = 1024

// Stamp identifies a stored message: its sequence, and when the bus stored it.
type Stamp struct {
	Seq  uint64
	Time time.Time
}

func (s Stamp) is(other Stamp) bool { return s.Seq == other.Seq && s.Time.Equal(other.Time) }

// Sequencer is how far the alerts were delivered. The zero value has delivered nothing, of
// a stream that it wants from the beginning.
type Sequencer struct {
	delivered Stamp
	recent    [remembered]Stamp
	// wanted is the newest stamp of the stream, as far as is known.
	wanted Stamp
	// suspect reports that the stream may have been recreated and has to be read; unproven
	// reports the same where there was nothing to read: the next message makes it read.
	suspect, unproven bool
	// more reports that the last read did not reach the end.
	more bool
	// missed counts messages that were gone before they could be read.
	missed uint64
}

// Start marks everything up to the last of stamps, oldest first, as delivered.
func (q *Sequencer) Start(stamps []Stamp) {
	*q = Sequencer{missed: q.missed}
	for _, s := range stamps {
		q.deliver(s)
	}
}

// Delivered returns the last stamp that was delivered; its sequence is 0 where there is none.
func (q *Sequencer) Delivered() Stamp { return q.delivered }

// Missed returns how many alerts the stream had dropped before they could be read.
func (q *Sequencer) Missed() uint64 { return q.missed }

// Published takes a message that was published just now, and reports whether to deliver
// it now. Otherwise it was delivered before, or will be read.
func (q *Sequencer) Published(s Stamp) (deliver bool) {
	switch {
	case s.Seq == q.delivered.Seq+1 && !q.reading() && !q.unproven:
		q.deliver(s)
		return true
	case s.Seq > q.delivered.Seq:
		q.want(s)
	case !q.sameStream(s):
		q.suspect = true
	}
	return false
}

// Suspect notes that the stream may have been recreated, because the connection was lost.
// What was wanted may be of the old stream; if it is not, the next check finds it.
func (q *Sequencer) Suspect() { q.suspect, q.wanted = true, Stamp{} }

// CheckEnd takes the newest message of the stream, if it has one, as a regular check finds
// it: live messages may have been lost.
func (q *Sequencer) CheckEnd(newest Stamp, found bool) {
	switch {
	case !found:
	case newest.Seq > q.delivered.Seq:
		q.want(newest)
	case !q.sameStream(newest):
		q.suspect = true
	}
}

// Wanted returns the sequence from which the stream has to be read, or false if it need
// not be read.
func (q *Sequencer) Wanted() (from uint64, wanted bool) {
	return max(q.delivered.Seq, 1), q.reading()
}

func (q *Sequencer) reading() bool {
	return q.suspect || q.more || q.wanted.Seq > q.delivered.Seq
}

// Outcome is the result of a read.
type Outcome int

// The outcomes.
const (
	// Continue: Wanted returns whether to read on.
	Continue Outcome = iota
	// Empty: nothing was there. The caller asks for the newest message and passes it to
	// ReadEmpty.
	Empty
	// Recreated: it is another stream, which is delivered from its beginning. What was
	// read is not delivered; Wanted returns what to read.
	Recreated
	// Lagging: the replica that answered lags behind. The caller tries again or, after
	// some time, calls Skip.
	Lagging
)

// Read takes what the stream holds from the sequence of Wanted on, oldest first. Full
// reports that there may be more. The messages from index deliver on are to be delivered.
func (q *Sequencer) Read(stamps []Stamp, full bool) (deliver int, o Outcome) {
	if len(stamps) == 0 {
		return 0, Empty
	}
	switch first := stamps[0]; {
	case first.is(q.delivered):
		deliver = 1
	case first.Seq == q.delivered.Seq:
		q.restart()
		return len(stamps), Recreated
	case q.delivered.Seq > 0: // the stream has dropped what is between
		q.missed += first.Seq - q.delivered.Seq - 1
	}
	q.suspect, q.unproven, q.more = false, false, full
	for _, s := range stamps[deliver:] {
		q.deliver(s)
	}
	if !full && q.wanted.Seq > q.delivered.Seq {
		return deliver, Lagging
	}
	return deliver, Continue
}

// ReadEmpty takes the newest message of a stream, if it has one, after a read that found
// nothing.
func (q *Sequencer) ReadEmpty(newest Stamp, found bool) Outcome {
	switch {
	case !found:
		q.unproven = q.unproven || q.suspect
	case newest.Seq >= q.delivered.Seq: // another replica has answered
		return Lagging
	case !q.sameStream(newest):
		q.restart()
		return Recreated
	default:
		q.unproven = false
	}
	q.suspect, q.more = false, false
	if q.wanted.Seq > q.delivered.Seq {
		return Lagging
	}
	return Continue
}

// Skip marks what is wanted as missed: it is gone, as after a purge.
func (q *Sequencer) Skip() {
	if q.wanted.Seq <= q.delivered.Seq {
		return
	}
	q.missed += q.wanted.Seq - q.delivered.Seq
	q.deliver(q.wanted)
}

func (q *Sequencer) want(s Stamp) {
	if s.Seq > q.wanted.Seq {
		q.wanted = s
	}
}

func (q *Sequencer) deliver(s Stamp) {
	q.delivered = s
	q.recent[s.Seq%remembered] = s
}

// sameStream reports whether a stamp at or before the last delivered one is of the same
// stream, as far as is known.
func (q *Sequencer) sameStream(s Stamp) bool {
	if known := q.recent[s.Seq%remembered]; known.Seq == s.Seq {
		return known.is(s)
	}
	return !s.Time.After(q.delivered.Time)
}

// restart starts with another stream.
func (q *Sequencer) restart() { *q = Sequencer{missed: q.missed, more: true} }
