// Package anomaly decides when errors come faster than they usually do.
//
// At an error at time t, c is the count in (t-10 s, t] and the rolling average
// the count in (t-70 s, t-10 s] divided by 6. A spike is c of at least 5 and
// more than 3 times the average. There is one finding per spike: the next only
// after c has been at or under 1.5 times the average, or 30 s after the last.
// At the former it is over: which may be between two errors, or long after the
// last, so whoever wants to hear of it asks now and then.
//
// The counts are exact on times in whole milliseconds. Equal times share a
// cell, so a window is never more than 70,000 cells whatever the rate, and each
// cell is touched three times in its life: when it comes, when it leaves the
// last 10 s, and when it leaves the 60 s before them.
//
// The package has no clock and knows nothing of what an error is. A time before
// the last one means that a clock was set back, and counting starts anew.
package anomaly

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// The rule, in milliseconds and errors.
const (
	window   = 10_000
	history  = 60_000
	rearm    = 30_000
	minSpike = 5
	windows  = history / window
)

// maxCells is one cell for each millisecond of the window and the history.
const maxCells = window + history

// Spike is what a finding counted.
type Spike struct {
	// Count is the number of errors in the last 10 s.
	Count int
	// Average is the number of errors in 10 s, over the 60 s before.
	Average float64
}

// Counter counts the errors of one app and signal. The zero value is ready.
type Counter struct {
	cells cells
	// recent is how many cells, the newest, are within the last 10 s; now and
	// before are the errors in them and in the others.
	recent      int
	now, before int64
	// silent says that the spike of lastAlert goes on, so that none is found.
	silent    bool
	lastAlert int64
	// spiking says that a spike was found that has not become calm since, moved
	// is up to when cells were moved on.
	spiking bool
	moved   int64
}

// cell is how many errors came in one millisecond.
type cell struct{ at, count int64 }

// Size is about how many bytes are held.
func (c *Counter) Size() int { return 16 * c.cells.cap() }

// Add counts an error at now and says whether a spike begins with it.
func (c *Counter) Add(now time.Time) (Spike, bool) {
	t := now.UnixMilli()
	c.until(t)
	if n := c.cells.len(); c.recent > 0 && c.cells.at(n-1).at == t {
		c.cells.at(n-1).count++
	} else {
		c.cells.push(cell{at: t, count: 1})
		c.recent++
	}
	c.now++
	if c.silent && t-c.lastAlert >= rearm {
		c.silent = false
	}
	if c.silent || c.now < minSpike || c.now*windows <= 3*c.before {
		return Spike{}, false
	}
	c.silent, c.spiking, c.lastAlert = true, true, t
	return c.counted(), true
}

// Over counts up to now and says whether there is no spike any more. moved says
// that something was counted anew.
func (c *Counter) Over(now time.Time) (counted Spike, over, moved bool) {
	moved = c.until(now.UnixMilli())
	return c.counted(), !c.spiking, moved
}

func (c *Counter) counted() Spike {
	return Spike{Count: int(c.now), Average: float64(c.before) / windows}
}

// until lets time pass up to t, and says whether that changed anything.
func (c *Counter) until(t int64) bool {
	if n := c.cells.len(); c.moved > t || n > 0 && c.cells.at(n-1).at > t {
		*c = Counter{}
		return true
	}
	before := c.moved
	c.advance(t)
	return c.moved != before
}

// advance lets cells leave the window and the history up to time t, in the
// order in which they do, and looks after each moment whether it has become
// calm: it may have been so only for a while between two errors.
func (c *Counter) advance(t int64) {
	for c.cells.len() > 0 {
		moment := c.cells.at(0).at + window + history
		if c.recent > 0 {
			moment = min(moment, c.firstRecent().at+window)
		}
		if moment > t {
			return
		}
		if c.recent > 0 && c.firstRecent().at+window == moment {
			c.now -= c.firstRecent().count
			c.before += c.firstRecent().count
			c.recent--
		}
		if first := c.cells.at(0); first.at+window+history == moment {
			c.before -= first.count
			c.cells.pop()
		}
		c.moved = moment
		c.calm()
	}
}

func (c *Counter) firstRecent() *cell { return c.cells.at(c.cells.len() - c.recent) }

// calm ends a spike when the count is at or under 1.5 times the average.
func (c *Counter) calm() {
	if c.spiking && 2*c.now*windows <= 3*c.before {
		c.silent, c.spiking = false, false
	}
}

// Save writes what is counted.
func (c *Counter) Save(w *snapshot.Writer) {
	w.Len(c.cells.cap())
	w.Len(c.cells.len())
	last := int64(0)
	for i := range c.cells.len() {
		w.Int(c.cells.at(i).at - last)
		w.Int(c.cells.at(i).count)
		last = c.cells.at(i).at
	}
	w.Len(c.recent)
	w.Bool(c.silent)
	w.Uint(uint64(c.lastAlert))
	w.Bool(c.spiking)
	w.Uint(uint64(c.moved))
}

// Restore reads what Save wrote. Errors are in r.
func Restore(r *snapshot.Reader) *Counter {
	c := &Counter{}
	room, n := r.UpTo(maxRing), r.Len(maxCells)
	if !validRing(room, n) {
		r.Fail("a ring of %d for %d errors", room, n)
		return c
	}
	c.cells.resize(room)
	last := int64(0)
	for i := range n {
		step, count := r.Int(), r.Int()
		if i > 0 && step < 1 || count < 1 || count > maxCount {
			r.Fail("%d errors after %d ms", count, step)
			return c
		}
		last += step
		if last < 0 || last > maxTime {
			r.Fail("an error at %d ms", last)
			return c
		}
		c.cells.push(cell{at: last, count: count})
	}
	c.recent = r.UpTo(c.cells.len())
	c.silent, c.lastAlert = r.Bool(), int64(r.UpTo(maxTime))
	c.spiking = c.silent // before, the one was the other
	if r.Has(snapshot.Resolutions) {
		c.spiking, c.moved = r.Bool(), int64(r.UpTo(maxTime))
	}
	for i := range c.cells.len() {
		if n := c.cells.at(i).count; i < c.cells.len()-c.recent {
			c.before += n
		} else {
			c.now += n
		}
	}
	return c
}

// What no snapshot of ours exceeds: errors in a millisecond, and a time in
// milliseconds since 1970.
const (
	maxCount = 1 << 40
	maxTime  = 1 << 50
)
