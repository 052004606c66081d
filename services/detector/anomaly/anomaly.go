// Package anomaly finds errors that come faster than they usually do, by their ratio to a
// rolling average: the specification's rule.
//
// At an error at time t, c is the count in (t-10 s, t] and the rolling average the count in
// (t-70 s, t-10 s] divided by 6. A spike is c of at least 5 and more than 3 times the
// average. The average is frozen while the spike is open, so that the errors of an incident
// never become their own measure.
//
// A spike calms when c is at or under 1.5 times the frozen average, or 1. It ends when c
// has not been at its level for 120 s after that; the level is three quarters of what a
// spike takes. A return before then belongs to the same spike. A spike that has not ended
// 15 min after it began, and that the errors of the minute before no longer make one, has
// become the new level. Either may happen between two errors, or long after the last, so
// callers ask regularly (Over). There is one finding per spike.
//
// Counts are exact on times in whole milliseconds. Equal times share a cell, so a window is
// at most 70,000 cells whatever the rate. Each cell is touched three times: when it comes,
// when it leaves the last 10 s, and when it leaves the 60 s before them.
//
// The package has no clock and does not know what an error is. A time before the last one
// means that a clock was set back; counting starts again.
package anomaly

import (
	"math"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// The rule, in milliseconds and errors.
const (
	window   = 10_000
	history  = 60_000
	minSpike = 5
	// maxCalm is the largest count at which a spike calms, whatever the average.
	maxCalm = 1
	// A count at the level of a spike is at least backPart of backOf of what a spike takes.
	backPart, backOf = 3, 4
	// quietPeriod is how long a spike must not return to end, and newLevel how long it lasts to
	// become the new level.
	quietPeriod = 120_000
	newLevel    = 900_000
	windows     = history / window
)

// maxCells is one cell for each millisecond of the window and the history.
const maxCells = window + history

// Spike has the figures of a finding.
type Spike struct {
	// Count is the number of errors in the last 10 s.
	Count int
	// Average is the number of errors in 10 s, over the 60 s before the spike.
	Average float64
	// Stayed reports whether the spike ended as the new level.
	Stayed bool
}

// Counter counts the errors of one app and signal. The zero value is ready.
type Counter struct {
	cells cells
	// recent is the number of cells, the newest, within the last 10 s. now and before are
	// the errors in them and in the others.
	recent      int
	now, before int64
	// open reports whether a spike is open, opened is when it began, and frozen the errors
	// in the 60 s before it. They stay when it ends.
	open           bool
	opened, frozen int64
	// calm reports whether the open spike has calmed, and calmSince is when.
	calm      bool
	calmSince int64
	// returned is when the open spike last returned after it had calmed.
	returned int64
	// stayed reports whether the last spike ended as the new level.
	stayed bool
	// moved is the time up to which cells were moved on.
	moved int64
}

// cell is the number of errors in one millisecond.
type cell struct{ at, count int64 }

// Size is about how many bytes are held.
func (c *Counter) Size() int { return 16 * c.cells.cap() }

// Add counts an error at now and reports whether a spike begins with it.
func (c *Counter) Add(now time.Time) (Spike, bool) {
	t := now.UnixMilli()
	c.advanceTo(t)
	if n := c.cells.len(); c.recent > 0 && c.cells.at(n-1).at == t {
		c.cells.at(n-1).count++
	} else {
		c.cells.push(cell{at: t, count: 1})
		c.recent++
	}
	c.now++
	if c.open {
		if c.calm && backOf*c.now >= backPart*max(minSpike, c.frozen/2+1) {
			c.calm, c.returned = false, t
		}
		return Spike{}, false
	}
	if c.now < minSpike || c.now*windows <= 3*c.before {
		return Spike{}, false
	}
	c.open, c.opened, c.frozen, c.calm, c.returned, c.stayed = true, t, c.before, false, 0, false
	return c.counted(), true
}

// isOver reports whether the count is over 1.5 times the frozen average.
func (c *Counter) isOver() bool { return 2*c.now*windows > 3*c.frozen }

// Over lets time pass up to now and reports whether no spike is open, and what is
// counted. moved reports whether that changed anything.
func (c *Counter) Over(now time.Time) (counted Spike, over, moved bool) {
	moved = c.advanceTo(now.UnixMilli())
	return c.counted(), !c.open, moved
}

// counted returns the count, and the average before the newest spike.
func (c *Counter) counted() Spike {
	return Spike{Count: int(c.now), Average: float64(c.frozen) / windows, Stayed: c.stayed}
}

// advanceTo lets time pass up to t, and reports whether that changed anything.
func (c *Counter) advanceTo(t int64) bool {
	if n := c.cells.len(); c.moved > t || n > 0 && c.cells.at(n-1).at > t || c.open && c.opened > t {
		*c = Counter{}
		return true
	}
	before, wasOpen := c.moved, c.open
	c.advance(t)
	return c.moved != before || c.open != wasOpen
}

// advance moves cells out of the window and the history up to time t, one by one, and
// checks the open spike before and after each: it may have calmed for a while between two
// errors.
func (c *Counter) advance(t int64) {
	for {
		moment := c.nextMove()
		c.endIfOver(min(moment-1, t))
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
		if c.open && !c.calm && (c.now <= maxCalm || !c.isOver()) {
			c.calm, c.calmSince = true, moment
		}
	}
}

// nextMove returns when the next cell leaves the window or the history.
func (c *Counter) nextMove() int64 {
	if c.cells.len() == 0 {
		return math.MaxInt64
	}
	moment := c.cells.at(0).at + window + history
	if c.recent > 0 {
		moment = min(moment, c.firstRecent().at+window)
	}
	return moment
}

// endIfOver ends the open spike if it ends by time t, up to which no count changes.
func (c *Counter) endIfOver(t int64) {
	switch {
	case !c.open:
	case c.calm:
		c.open = t < c.calmSince+quietPeriod
	case t == c.returned:
		// Over was called while it was calm. It ends as the new level when Over is called
		// again, and not within Add, which could find the next spike at once.
	case t >= c.opened+newLevel && c.now*windows <= 3*c.before:
		c.open, c.stayed = false, true
	}
}

func (c *Counter) firstRecent() *cell { return c.cells.at(c.cells.len() - c.recent) }

// Bounds on what a snapshot holds: errors in a millisecond, times in milliseconds since
// 1970, and errors in a minute.
const (
	maxCount  = 1 << 40
	maxTime   = 1 << 50
	maxFrozen = 1 << 58
)

// State has what is counted.
func (c *Counter) State(s *snapshot.State) {
	room, times, counts := c.cells.cap(), []int64(nil), []int64(nil)
	if n := c.cells.len(); n > 0 && !s.Reading() {
		times, counts = make([]int64, 0, n), make([]int64, 0, n)
		for i := range n {
			times, counts = append(times, c.cells.at(i).at), append(counts, c.cells.at(i).count)
		}
	}
	snapshot.Uint(s, 1, &room, maxRing)
	times = s.PackedTimes(2, times, maxCells)
	counts = snapshot.Packed(s, 3, counts, maxCells, maxCount)
	snapshot.Uint(s, 4, &c.recent, maxCells)
	s.Bool(5, &c.open)
	snapshot.Uint(s, 6, &c.opened, maxTime)
	snapshot.Uint(s, 7, &c.frozen, maxFrozen)
	s.Bool(8, &c.calm)
	snapshot.Uint(s, 9, &c.calmSince, maxTime)
	snapshot.Uint(s, 10, &c.returned, maxTime)
	s.Bool(11, &c.stayed)
	snapshot.Uint(s, 12, &c.moved, maxTime)
	if s.Reading() && s.OK() {
		c.fill(s, room, times, counts)
	}
}

// fill puts cells into a ring of a length.
func (c *Counter) fill(s *snapshot.State, room int, times, counts []int64) {
	if !validRing(room, len(times)) || len(counts) != len(times) || c.recent > len(times) {
		s.Fail("a ring of %d for %d times, %d counts and %d that are recent", room, len(times), len(counts), c.recent)
		return
	}
	c.cells = cells{}
	c.cells.resize(room)
	c.now, c.before = 0, 0
	for i, at := range times {
		if counts[i] < 1 || at < 0 || at > maxTime || i > 0 && at <= times[i-1] {
			s.Fail("%d errors at %d ms", counts[i], at)
			return
		}
		c.cells.push(cell{at: at, count: counts[i]})
		if i < len(times)-c.recent {
			c.before += counts[i]
		} else {
			c.now += counts[i]
		}
	}
}
