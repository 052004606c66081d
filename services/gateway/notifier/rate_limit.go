package notifier

import (
	"slices"
	"time"
)

// At most rateLimit notifications are sent in any rateWindow. A notification sent
// exactly rateWindow ago does not count.
//
// This is a sliding window: a token bucket (golang.org/x/time/rate) would let up to
// twice as many through.
const (
	rateWindow = 60 * time.Second
	rateLimit  = 12
)

// sendTimes holds the times of the newest rateLimit notifications, oldest first.
type sendTimes []time.Time

// add records a notification.
func (p *sendTimes) add(now time.Time) {
	if len(*p) == rateLimit {
		*p = slices.Delete(*p, 0, 1)
	}
	*p = append(*p, now)
}

// nextAllowed returns the time from which the next notification may be sent: the throttle has
// passed and the window has room. It is the zero time before the first notification.
func (p sendTimes) nextAllowed(throttle time.Duration) time.Time {
	if len(p) == 0 {
		return time.Time{}
	}
	free := p[len(p)-1].Add(throttle)
	if len(p) == rateLimit {
		free = later(free, p[0].Add(rateWindow))
	}
	return free
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
