package lease

import "time"

// Clock measures how long a holder may act: for a time after its newest acknowledged renewal
// was sent. For other processes the lease expires later, because they count from when the
// renewal arrived.
//
// Each time that the lease had expired and is held again begins a new epoch: another
// process may have held it in between. The zero Clock is never held. A Clock is not safe
// for concurrent use.
type Clock struct {
	holdFor time.Duration
	sent    time.Time
	epoch   uint64
}

// NewClock returns the clock of a lease that is held for a time after each renewal.
func NewClock(holdFor time.Duration) Clock { return Clock{holdFor: holdFor} }

// Renew records the acknowledgement, at now, of a renewal that was sent before. One that is
// acknowledged late, after a newer one, changes nothing.
func (c *Clock) Renew(sent, now time.Time) {
	if c.Left(now) <= 0 {
		c.epoch++
	}
	if sent.After(c.sent) {
		c.sent = sent
	}
}

// Epoch counts the times that the lease was acquired. It is 0 before the first.
func (c *Clock) Epoch() uint64 { return c.epoch }

// Holds reports whether what was claimed in an epoch is held.
func (c *Clock) Holds(epoch uint64, now time.Time) bool {
	return epoch > 0 && epoch == c.epoch && c.Left(now) > 0
}

// Left returns how long the lease is still held; it is not held at 0 and below.
func (c *Clock) Left(now time.Time) time.Duration {
	if c.sent.IsZero() {
		return 0
	}
	return c.holdFor - elapsed(c.sent, now)
}

// elapsed returns how much time has passed, by the clock that shows more of it: the
// monotonic one stops while the machine is suspended, the wall clock can be set back.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
