// Package tape decides which alert comes next, so that each is told once and in
// order, whatever happens on the way: messages that never arrive, a bus that is
// restarted, a replica that lags behind the others, a stream that was made anew.
//
// It sees places only: a sequence and the bus's stamp of the arrival, which
// together tell one stream from another that begins its sequences again. It knows
// no bus, no alert and no clock. Whoever uses it hears what is published, reads the
// stream where Want says so, and tells what it is told to tell.
package sequencer

import "time"

// remembered is how many of the newest places are remembered exactly. Of older ones
// the stamp of the newest has to tell which stream they are of.
const remembered = 1024

// Mark is the place of a message.
type Mark struct {
	Seq  uint64
	Time time.Time
}

func (m Mark) is(other Mark) bool { return m.Seq == other.Seq && m.Time.Equal(other.Time) }

// Tape is how far the alerts were told. The zero value has told nothing, of a
// stream whose beginning it wants.
type Tape struct {
	at     Mark
	recent [remembered]Mark
	// wanted is the newest place that there is, as far as is known.
	wanted Mark
	// doubt says that the stream may be another one than before, and has to be read.
	// unproven says so where there was nothing to read: whatever comes next is read.
	doubt, unproven bool
	// more says that the last read did not reach the end.
	more bool
	// missed counts places that were not there any more when they were read.
	missed uint64
}

// Begin says that everything up to the end of marks, oldest first, needs no telling.
func (t *Tape) Begin(marks []Mark) {
	*t = Tape{missed: t.missed}
	for _, m := range marks {
		t.tell(m)
	}
}

// At is the place that was told last; its sequence is 0 where there is none.
func (t *Tape) At() Mark { return t.at }

// Missed counts alerts that the stream had dropped before they could be read.
func (t *Tape) Missed() uint64 { return t.missed }

// Heard takes a message that was published just now, and says whether it is to be
// told now. What is not was told before, or will be read.
func (t *Tape) Heard(m Mark) (tell bool) {
	switch {
	case m.Seq == t.at.Seq+1 && !t.reading() && !t.unproven:
		t.tell(m)
		return true
	case m.Seq > t.at.Seq:
		t.want(m)
	case !t.tellsOf(m):
		t.doubt = true
	}
	return false
}

// Doubt says that the stream may have become another one: the connection was lost.
// What was wanted may be of the one before. Where it is not, the next look finds it.
func (t *Tape) Doubt() { t.doubt, t.wanted = true, Mark{} }

// Checked takes the newest message of the stream, or that it has none, as somebody
// looked for it unasked: what was published may have got lost on the way.
func (t *Tape) Checked(newest Mark, found bool) {
	switch {
	case !found:
	case newest.Seq > t.at.Seq:
		t.want(newest)
	case !t.tellsOf(newest):
		t.doubt = true
	}
}

// Want is from where the stream has to be read, or false where it needs not be.
func (t *Tape) Want() (from uint64, wanted bool) { return max(t.at.Seq, 1), t.reading() }

func (t *Tape) reading() bool { return t.doubt || t.more || t.wanted.Seq > t.at.Seq }

// Outcome is what a read has led to.
type Outcome int

// The outcomes.
const (
	// Fine: what was read is told, and Want says whether to read on.
	Fine Outcome = iota
	// Empty: nothing was there. Whoever read has to look for the newest message, and
	// say so to End.
	Empty
	// Renewed: it is another stream, and told from its beginning. What was read is
	// not to be told: Want says what to read.
	Renewed
	// Behind: who answered has not got yet what there is. Try again, or, where that
	// has been of no use for long, GiveUp.
	Behind
)

// Read takes what the stream holds from Want's place on, oldest first. Full says
// that there may be more. What stands from index tell on is to be told.
func (t *Tape) Read(marks []Mark, full bool) (tell int, o Outcome) {
	if len(marks) == 0 {
		return 0, Empty
	}
	switch first := marks[0]; {
	case first.is(t.at):
		tell = 1
	case first.Seq == t.at.Seq:
		t.renew()
		return len(marks), Renewed
	case t.at.Seq > 0: // what is between has been dropped by the stream
		t.missed += first.Seq - t.at.Seq - 1
	}
	t.doubt, t.unproven, t.more = false, false, full
	for _, m := range marks[tell:] {
		t.tell(m)
	}
	if !full && t.wanted.Seq > t.at.Seq {
		return tell, Behind
	}
	return tell, Fine
}

// End takes the newest message of a stream that had nothing to read, or that it has
// none.
func (t *Tape) End(newest Mark, found bool) Outcome {
	switch {
	case !found:
		t.unproven = t.unproven || t.doubt
	case newest.Seq >= t.at.Seq: // another replica has answered
		return Behind
	case !t.tellsOf(newest):
		t.renew()
		return Renewed
	default:
		t.unproven = false
	}
	t.doubt, t.more = false, false
	if t.wanted.Seq > t.at.Seq {
		return Behind
	}
	return Fine
}

// GiveUp says that what is wanted is not there any more, as after a purge.
func (t *Tape) GiveUp() {
	if t.wanted.Seq <= t.at.Seq {
		return
	}
	t.missed += t.wanted.Seq - t.at.Seq
	t.tell(t.wanted)
}

func (t *Tape) want(m Mark) {
	if m.Seq > t.wanted.Seq {
		t.wanted = m
	}
}

func (t *Tape) tell(m Mark) {
	t.at = m
	t.recent[m.Seq%remembered] = m
}

// tellsOf says whether a place that lies at or before the last one told is of the
// same stream, as far as that can be known.
func (t *Tape) tellsOf(m Mark) bool {
	if known := t.recent[m.Seq%remembered]; known.Seq == m.Seq {
		return known.is(m)
	}
	return !m.Time.After(t.at.Time)
}

// renew begins with another stream.
func (t *Tape) renew() { *t = Tape{missed: t.missed, more: true} }
