package leader

import "time"

// Lease is how long a holder may act. The zero value has never been held.
type Lease struct {
	sent time.Time
	hold time.Duration
}

// NewLease is one that holds for a time after what renewed it was sent.
func NewLease(hold time.Duration) Lease { return Lease{hold: hold} }

// Renew notes that a renewal which was sent at a time is stored. The store counts
// from when it came in, which is later.
func (l *Lease) Renew(sent time.Time) {
	if sent.After(l.sent) {
		l.sent = sent
	}
}

// Left is how long it still holds; not at all from 0 on.
func (l *Lease) Left(now time.Time) time.Duration {
	if l.sent.IsZero() {
		return 0
	}
	return l.hold - passed(l.sent, now)
}

// passed is how much time has passed, by the clock that shows more of it: the one
// that only runs forward stands still while the whole machine is suspended, the
// other one can be set back.
func passed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
