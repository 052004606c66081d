package ownership

import "time"

// Lease is how long a member may speak for what it owns. The zero value has never
// held.
//
// Each time that it had lapsed and holds again is a new epoch: another member may
// have taken what was held before. So a partition is held in the epoch in which
// its record was written, and no other.
type Lease struct {
	sent  time.Time
	epoch uint64
}

// Renew notes the acknowledgement, at now, of a beat that was sent before.
func (l *Lease) Renew(sent, now time.Time) {
	if !l.holds(now) {
		l.epoch++
	}
	if sent.After(l.sent) {
		l.sent = sent
	}
}

// Epoch is 0 until the first beat is acknowledged.
func (l *Lease) Epoch() uint64 { return l.epoch }

// Holds says whether what was claimed in an epoch is held.
func (l *Lease) Holds(epoch uint64, now time.Time) bool {
	return epoch > 0 && epoch == l.epoch && l.holds(now)
}

func (l *Lease) holds(now time.Time) bool { return !l.sent.IsZero() && passed(l.sent, now) < HoldFor }

// passed is how much time has passed, by the clock that shows more of it: the one
// that only runs forward stands still while the whole machine is suspended, the
// other one can be set back.
func passed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
