package anomaly

import (
	"iter"
	"time"
)

// Memory is how far back a Counter knows its errors.
const Memory = (window + history) * time.Millisecond

// Errors yields when errors came and how many at each time, the oldest first: those of
// the last Memory, so that another rule can continue from them.
func (c *Counter) Errors() iter.Seq2[time.Time, int64] {
	return func(yield func(time.Time, int64) bool) {
		for i := range c.cells.len() {
			if at := c.cells.at(i); !yield(time.UnixMilli(at.at), at.count) {
				return
			}
		}
	}
}

// Count counts n errors at a time, which is not before the last, without looking for a
// spike: for errors that another rule has judged.
func (c *Counter) Count(at time.Time, n int64) {
	t := at.UnixMilli()
	c.advanceTo(t)
	if last := c.cells.len() - 1; c.recent > 0 && c.cells.at(last).at == t {
		c.cells.at(last).count += n
	} else {
		c.cells.push(cell{at: t, count: n})
		c.recent++
	}
	c.now += n
}
