package spike

import (
	"iter"
	"math"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// The rule ratio3x, in milliseconds and errors.
//
// At an error at time t, the count is that of (t-10 s, t], and the rolling average is the
// count of (t-70 s, t-10 s] divided by 6. A spike is a count of at least 5 and more than 3
// times the average. The average is frozen while the spike is open, so that the errors of an
// incident never become their own measure.
//
// A spike calms once the count is at most 1.5 times the frozen average, or 1. It ends 120 s
// later, unless the count returns to three quarters of what begins a spike; then the spike
// goes on. After 15 min a spike becomes the new level, as soon as the errors of the minute
// before it no longer make its count a spike. There is one finding for each spike.
const (
	window   = 10_000
	history  = 60_000
	windows  = history / window
	minSpike = 5
	// maxCalm is the largest count at which a spike calms, even if the average is lower.
	maxCalm = 1
	// A spike returns at returnPart of returnOf of the count that begins one.
	returnPart, returnOf = 3, 4
	// calmPeriod is how long a spike has to be calm to end.
	calmPeriod = 120_000
	// newLevel is the age from which a spike can become the new level.
	newLevel = 900_000
)

// maxCells is one cell for each millisecond of the window and the history.
const maxCells = window + history

// RatioSpike has the figures of a spike.
type RatioSpike struct {
	// Count is the number of errors in the last 10 s.
	Count int
	// Average is the number of errors in 10 s, over the 60 s before the spike.
	Average float64
	// Stayed reports whether the spike ended as the new level.
	Stayed bool
}

// RatioCounter finds error spikes of one app and signal by the rule ratio3x. It does not
// know what an error is. A spike can calm or end between two errors, or long after the last
// one, so callers ask regularly ([RatioCounter.Over]). A time before the last one means that
// a clock was set back; counting starts again.
//
// Counts are exact on times in whole milliseconds. Equal times share a cell, so there are at
// most 70,000 cells at any rate. Each cell is touched three times: when it comes, when it
// leaves the window, and when it leaves the history. The zero value is ready.
type RatioCounter struct {
	cells cells
	// recent is how many cells, the newest, are in the window.
	recent int
	// inWindow and inHistory are the errors of the last 10 s, and of the 60 s before them.
	inWindow, inHistory int64
	// movedUpTo is the time up to which cells have left the window and the history.
	movedUpTo int64

	// open reports whether a spike is open, opened is when it began, and frozen the errors
	// in the 60 s before it. The last two keep their values when it ends.
	open           bool
	opened, frozen int64
	// calm reports whether the open spike has calmed, and calmSince is when.
	calm      bool
	calmSince int64
	// returned is when the open spike last returned after it had calmed.
	returned int64
	// stayed reports whether the last spike ended as the new level.
	stayed bool
}

// cell counts the errors of one millisecond, given since 1970.
type cell struct{ ms, count int64 }

// Size is about how many bytes the counter takes.
func (c *RatioCounter) Size() int { return 16 * c.cells.cap() }

// Add counts an error at now and reports whether a spike begins with it.
func (c *RatioCounter) Add(now time.Time) (RatioSpike, bool) {
	t := now.UnixMilli()
	c.advanceTo(t)
	if n := c.cells.len(); c.recent > 0 && c.cells.at(n-1).ms == t {
		c.cells.at(n-1).count++
	} else {
		c.cells.push(cell{ms: t, count: 1})
		c.recent++
	}
	c.inWindow++
	if c.open {
		if c.calm && returnOf*c.inWindow >= returnPart*max(minSpike, c.frozen/2+1) {
			c.calm, c.returned = false, t
		}
		return RatioSpike{}, false
	}
	if c.inWindow < minSpike || c.inWindow*windows <= 3*c.inHistory {
		return RatioSpike{}, false
	}
	c.open, c.opened, c.frozen, c.calm, c.returned, c.stayed = true, t, c.inHistory, false, 0, false
	return c.counted(), true
}

// exceedsCalm reports whether the count is over 1.5 times the frozen average.
func (c *RatioCounter) exceedsCalm() bool { return 2*c.inWindow*windows > 3*c.frozen }

// Over lets time pass up to now, and reports whether no spike is open and whether the state
// has changed.
func (c *RatioCounter) Over(now time.Time) (counted RatioSpike, over, changed bool) {
	changed = c.advanceTo(now.UnixMilli())
	return c.counted(), !c.open, changed
}

// counted returns the count in the window and the average before the newest spike.
func (c *RatioCounter) counted() RatioSpike {
	return RatioSpike{Count: int(c.inWindow), Average: float64(c.frozen) / windows, Stayed: c.stayed}
}

// advanceTo lets time pass up to t, and reports whether the state has changed.
func (c *RatioCounter) advanceTo(t int64) bool {
	if n := c.cells.len(); c.movedUpTo > t || n > 0 && c.cells.at(n-1).ms > t || c.open && c.opened > t {
		*c = RatioCounter{}
		return true
	}
	before, wasOpen := c.movedUpTo, c.open
	c.advance(t)
	return c.movedUpTo != before || c.open != wasOpen
}

// advance moves cells out of the window and the history up to time t, one by one, and
// checks the open spike at each: it may have calmed for a while between two errors.
func (c *RatioCounter) advance(t int64) {
	for {
		moment := c.nextMove()
		c.endIfOver(min(moment-1, t))
		if moment > t {
			return
		}
		if c.recent > 0 && c.firstRecent().ms+window == moment {
			c.inWindow -= c.firstRecent().count
			c.inHistory += c.firstRecent().count
			c.recent--
		}
		if first := c.cells.at(0); first.ms+window+history == moment {
			c.inHistory -= first.count
			c.cells.pop()
		}
		c.movedUpTo = moment
		if c.open && !c.calm && (c.inWindow <= maxCalm || !c.exceedsCalm()) {
			c.calm, c.calmSince = true, moment
		}
	}
}

// nextMove returns when the next cell leaves the window or the history.
func (c *RatioCounter) nextMove() int64 {
	if c.cells.len() == 0 {
		return math.MaxInt64
	}
	moment := c.cells.at(0).ms + window + history
	if c.recent > 0 {
		moment = min(moment, c.firstRecent().ms+window)
	}
	return moment
}

// endIfOver ends the open spike if it ends by time t, up to which no count changes.
func (c *RatioCounter) endIfOver(t int64) {
	switch {
	case !c.open:
	case c.calm:
		c.open = t < c.calmSince+calmPeriod
	case t == c.returned:
		// It returned just now. It may end as the new level with the next millisecond, but
		// not within Add, which could find the next spike at once.
	case t >= c.opened+newLevel && c.inWindow*windows <= 3*c.inHistory:
		c.open, c.stayed = false, true
	}
}

func (c *RatioCounter) firstRecent() *cell { return c.cells.at(c.cells.len() - c.recent) }

// ratioMemory is how far back a RatioCounter knows its errors.
const ratioMemory = (window + history) * time.Millisecond

// Errors yields the times of the last 70 s at which errors came, the oldest first, and how
// many came at each. The rule rate-tail continues from them.
func (c *RatioCounter) Errors() iter.Seq2[time.Time, int64] {
	return func(yield func(time.Time, int64) bool) {
		for i := range c.cells.len() {
			if cell := c.cells.at(i); !yield(time.UnixMilli(cell.ms), cell.count) {
				return
			}
		}
	}
}

// Count counts n errors at a time, which is not before the last, and finds no spike: the
// rule rate-tail has seen these errors already.
func (c *RatioCounter) Count(at time.Time, n int64) {
	t := at.UnixMilli()
	c.advanceTo(t)
	if last := c.cells.len() - 1; c.recent > 0 && c.cells.at(last).ms == t {
		c.cells.at(last).count += n
	} else {
		c.cells.push(cell{ms: t, count: n})
		c.recent++
	}
	c.inWindow += n
}

// Bounds on what a snapshot holds: errors in a millisecond, times in milliseconds since
// 1970, and errors in a minute.
const (
	maxCount  = 1 << 40
	maxTime   = 1 << 50
	maxFrozen = 1 << 58
)

// State reads or writes the counter.
func (c *RatioCounter) State(s *snapshot.Codec) {
	room, times, counts := c.cells.cap(), []int64(nil), []int64(nil)
	if n := c.cells.len(); n > 0 && !s.Reading() {
		times, counts = make([]int64, 0, n), make([]int64, 0, n)
		for i := range n {
			times, counts = append(times, c.cells.at(i).ms), append(counts, c.cells.at(i).count)
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
	snapshot.Uint(s, 12, &c.movedUpTo, maxTime)
	if s.Reading() && s.OK() {
		c.fill(s, room, times, counts)
	}
}

// fill puts cells into a ring of a length.
func (c *RatioCounter) fill(s *snapshot.Codec, room int, times, counts []int64) {
	if !validRing(room, len(times)) || len(counts) != len(times) || c.recent > len(times) {
		s.Fail("a ring of %d for %d times, %d counts and %d that are recent", room, len(times), len(counts), c.recent)
		return
	}
	c.cells = cells{}
	c.cells.resize(room)
	c.inWindow, c.inHistory = 0, 0
	for i, at := range times {
		if counts[i] < 1 || at < 0 || at > maxTime || i > 0 && at <= times[i-1] {
			s.Fail("%d errors at %d ms", counts[i], at)
			return
		}
		c.cells.push(cell{ms: at, count: counts[i]})
		if i < len(times)-c.recent {
			c.inHistory += counts[i]
		} else {
			c.inWindow += counts[i]
		}
	}
}
