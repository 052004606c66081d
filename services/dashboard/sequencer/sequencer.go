// Package sequencer decides which alert is delivered next, so that each is delivered once
// and in order, even if live messages are lost, the bus restarts, a replica lags or the
// stream is recreated.
//
// It handles only stamps of messages, by which it distinguishes a stream from a recreated
// one with the same sequences. It uses no bus and no clock. Its caller passes the live
// messages, reads the stream from the sequence that [Sequencer.NextRead] returns, and
// delivers the messages that the methods select.
package sequencer

import "time"

// recentStamps is how many of the newest stamps are kept. For older ones, the time decides
// whether a stamp is of the same stream.
const recentStamps = 1024

// Stamp identifies a stored message: its sequence, and when the bus stored it.
type Stamp struct {
	Seq  uint64
	Time time.Time
}

func (s Stamp) equal(other Stamp) bool { return s.Seq == other.Seq && s.Time.Equal(other.Time) }

// Sequencer tracks which alerts were delivered. The zero value has delivered none.
type Sequencer struct {
	delivered Stamp
	recent    [recentStamps]Stamp
	// wanted is the newest stamp of the stream, as far as is known.
	wanted Stamp
	// suspect reports whether the stream may have been recreated, and must be read. unproven
	// reports the same for a stream that was empty, which is read when a message arrives.
	suspect, unproven bool
	// more reports whether the last read did not reach the end of the stream.
	more bool
	// missed counts the messages that the stream dropped before they could be read.
	missed uint64
}

// Start marks everything up to the last of stamps, oldest first, as delivered.
func (q *Sequencer) Start(stamps []Stamp) {
	*q = Sequencer{missed: q.missed}
	for _, s := range stamps {
		q.deliver(s)
	}
}

// Delivered returns the last stamp that was delivered, with sequence 0 if there is none.
func (q *Sequencer) Delivered() Stamp { return q.delivered }

// Missed returns how many alerts the stream had dropped before they could be read.
func (q *Sequencer) Missed() uint64 { return q.missed }

// AddLive adds a live message, and reports whether to deliver it now. If not, it was delivered
// before, or will be read from the stream.
func (q *Sequencer) AddLive(s Stamp) (deliver bool) {
	switch {
	case s.Seq == q.delivered.Seq+1 && !q.mustRead() && !q.unproven:
		q.deliver(s)
		return true
	case s.Seq > q.delivered.Seq:
		q.want(s)
	case !q.sameStream(s):
		q.suspect = true
	}
	return false
}

// SuspectRecreation notes that the stream may have been recreated, because the connection was
// lost. It forgets the wanted stamp, which may be of the old stream; if not, the next
// CheckEnd finds it.
func (q *Sequencer) SuspectRecreation() { q.suspect, q.wanted = true, Stamp{} }

// CheckEnd compares the newest message of the stream, if it has one, with what was delivered,
// because live messages may have been lost.
func (q *Sequencer) CheckEnd(newest Stamp, found bool) {
	switch {
	case !found:
	case newest.Seq > q.delivered.Seq:
		q.want(newest)
	case !q.sameStream(newest):
		q.suspect = true
	}
}

// NextRead returns the sequence from which the stream must be read, or false if it need not
// be read.
func (q *Sequencer) NextRead() (from uint64, wanted bool) {
	return max(q.delivered.Seq, 1), q.mustRead()
}

func (q *Sequencer) mustRead() bool {
	return q.suspect || q.more || q.wanted.Seq > q.delivered.Seq
}

// Outcome is the result of a read.
type Outcome int

// The outcomes.
const (
	// Continue: NextRead returns whether to read on.
	Continue Outcome = iota
	// Empty: the read found nothing. The caller gets the newest message and passes it to
	// AddEmptyRead.
	Empty
	// Recreated: the stream was recreated, and is delivered from its beginning. The messages
	// that were read are not delivered; NextRead returns what to read.
	Recreated
	// Lagging: the replica that answered lags. The caller reads again or, after some time,
	// calls Skip.
	Lagging
)

// AddRead adds the messages that a read from the sequence of NextRead returned, oldest first.
// Full reports whether there may be more. The caller delivers the messages from index
// deliver on.
func (q *Sequencer) AddRead(stamps []Stamp, full bool) (deliver int, o Outcome) {
	if len(stamps) == 0 {
		return 0, Empty
	}
	switch first := stamps[0]; {
	case first.equal(q.delivered):
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

// AddEmptyRead adds a read that returned nothing, with the newest message of the stream, if it
// has one.
func (q *Sequencer) AddEmptyRead(newest Stamp, found bool) Outcome {
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

// Skip counts the wanted messages as missed, as after a purge.
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
	q.recent[s.Seq%recentStamps] = s
}

// sameStream reports whether a stamp at or before the last delivered one is of the same
// stream, as far as is known.
func (q *Sequencer) sameStream(s Stamp) bool {
	if known := q.recent[s.Seq%recentStamps]; known.Seq == s.Seq {
		return known.equal(s)
	}
	return !s.Time.After(q.delivered.Time)
}

// restart starts again with a recreated stream.
func (q *Sequencer) restart() { *q = Sequencer{missed: q.missed, more: true} }
