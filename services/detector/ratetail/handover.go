package ratetail

import (
	"iter"
	"math"
	"time"
)

// Errors yields the errors in each of the last seconds, the oldest first, so that another
// rule can continue from them. They are exact for the last 10 s. Of earlier seconds only the
// usual rate is known, without a current spike: its errors are spread evenly.
func (c *Counter) Errors(seconds int64) iter.Seq2[time.Time, int64] {
	return func(yield func(time.Time, int64) bool) {
		rest, rate := 0.0, 0.0
		if c.usual.exposure > 0 {
			rate = c.usual.count / c.usual.exposure
		}
		for s := c.at - seconds + 1; s <= c.at; s++ {
			n := int64(0)
			switch {
			case s > c.at-slots:
				n = int64(*c.slot(s))
			case s > c.since:
				rest += rate
				n = int64(math.Floor(rest))
				rest -= float64(n)
			}
			if n > 0 && !yield(time.Unix(s, 0), n) {
				return
			}
		}
	}
}

// Count counts n errors at a time, which is not before the last, and does not look for a
// spike. It is for errors that another rule has counted.
func (c *Counter) Count(at time.Time, n int64) {
	c.advanceTo(second(at))
	slot := c.slot(c.at)
	*slot = uint32(min(int64(*slot)+n, math.MaxUint32))
	c.lastError = c.at
}
