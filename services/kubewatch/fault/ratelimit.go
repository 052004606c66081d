package fault

import (
	"container/list"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// rateLimit limits the published faults of a kind to Burst at once and Rate a second.
type rateLimit struct {
	limiter *rate.Limiter
	// next is when the limit allows a fault after it refused one.
	next time.Time
	// omitted counts the momentary faults that were refused since the last alert.
	omitted int
	// waiting are the lasting faults to publish once the limit allows it.
	waiting list.List
}

// limit returns the rate limit of a kind.
func (t *Tracker) limit(kind string) *rateLimit {
	l := t.limits[kind]
	if l == nil {
		l = &rateLimit{limiter: rate.NewLimiter(Rate, Burst)}
		t.limits[kind] = l
	}
	return l
}

// joinKind names the limit of faults of a kind that join an existing alert.
func joinKind(kind string) string { return kind + " again" }

// allow reports whether a fault may be published now, and counts it if so.
func (l *rateLimit) allow(now time.Time) bool {
	if l.limiter.AllowN(now, 1) {
		return true
	}
	missing := (1 - l.limiter.TokensAt(now)) / Rate
	l.next = now.Add(time.Duration(math.Ceil(missing * float64(time.Second))))
	return false
}
