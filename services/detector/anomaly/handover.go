package anomaly

import (
	"iter"
	"time"
)

// Memory is how far back a Counter knows its errors.
const Memory = (window + history) * time.Millisecond

// Errors yields when errors came and how many at each time, the oldest first: those of
// the last Memory, so that another rule can go on from them. Total is their sum.
func (c *Counter) Errors() iter.Seq2[time.Time, int64] {
	return func(yield func(time.Time, int64) bool) {
		for i := range c.cells.len() {
			if at := c.cells.at(i); !yield(time.UnixMilli(at.at), at.count) {
				return
			}
		}
	}
}

// Total is how many errors Errors yields.
func (c *Counter) Total() int64 { return c.now + c.before }
