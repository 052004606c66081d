package ownership

import "time"

// Lease is the right of a member to act for the partitions that it owns. It expires
// HoldFor after the newest acknowledged heartbeat was sent. The zero value is expired.
//
// A renewal after expiry begins a new epoch: another member may have taken a
// partition in between. A partition is therefore held only in the epoch in which its
// record was written.
type Lease struct {
	sent  time.Time
	epoch uint64
}

// Renew extends the lease: a heartbeat sent at sent was acknowledged at now.
func (l *Lease) Renew(sent, now time.Time) {
	if !l.valid(now) {
		l.epoch++
	}
	if sent.After(l.sent) {
		l.sent = sent
	}
}

// Epoch returns the number of the current epoch, 0 before the first heartbeat.
func (l *Lease) Epoch() uint64 { return l.epoch }

// Holds reports whether a partition claimed in an epoch is held at now.
func (l *Lease) Holds(epoch uint64, now time.Time) bool {
	return epoch > 0 && epoch == l.epoch && l.valid(now)
}

func (l *Lease) valid(now time.Time) bool { return !l.sent.IsZero() && elapsed(l.sent, now) < HoldFor }

// elapsed returns the larger of the times that the monotonic and the wall clock show.
// The monotonic clock stands still while the machine is suspended; the wall clock can
// be set back.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
