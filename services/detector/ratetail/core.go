package ratetail

import (
	"math"
	"time"
)

// core is the part that Counter and Small share: the newest slots, the usual level, and the
// current spike. Times are in seconds since 1970.
type core struct {
	usual level
	// at is the current second, lastError the second of the newest error, and since the
	// last second before counting began.
	at, lastError, since int64
	// from is the first second of the current spike or burst.
	from  int64
	slots [slots]uint32
	state state
	// stayed reports whether the last spike ended as the new level.
	stayed bool
	// patience is how many seconds after the newest error a silence begins. It is computed
	// when that error leaves the window.
	patience uint32
}

// state is the state of the current episode.
type state uint8

const (
	calm state = iota
	// spiking is a spike that has not ended.
	spiking
	// expected is a burst that comes by its schedule and is no spike.
	expected
	states
)

func second(t time.Time) int64 {
	ms := t.UnixMilli()
	if ms < 0 {
		ms -= 999
	}
	return ms / 1000
}

func newCore(now time.Time) core {
	s := second(now)
	return core{at: s, lastError: s, since: s}
}

func (c *core) slot(s int64) *uint32 { return &c.slots[((s%slots)+slots)%slots] }

// add counts an error in the current second, and returns how many that second has.
func (c *core) add() int64 {
	slot := c.slot(c.at)
	if *slot < math.MaxUint32 {
		*slot++
	}
	c.lastError = c.at
	return int64(*slot)
}

// count returns the number of errors in the last 10 s.
func (c *core) count() (n int64) {
	for _, slot := range c.slots {
		n += int64(slot)
	}
	return n
}

// countsBefore returns the number of errors in each window before the current second.
func (c *core) countsBefore() (before [len(windows)]int64) {
	sum, w := int64(0), 0
	for back := range int64(slots) {
		if back > 0 {
			sum += int64(*c.slot(c.at - back))
		}
		if windows[w].length == back+1 {
			before[w] = sum
			w++
		}
	}
	return before
}

// findSpike reports whether the count of any window is a spike, with n errors in the
// current second. If none is, no count up to limit in that second is a spike either.
func (c *core) findSpike(before *[len(windows)]int64, n int64, s *scales) (found Finding, limit int64, spike bool) {
	weight := s.weight()
	more, expected := clusterLeniency*math.Log(s.clusters()), c.expected()
	limit = math.MaxInt64
	sureness := 0.0
	if c.at-c.since < youngFor {
		sureness = math.Log(youngFactor)
	}
	tested := len(windows)
	recent := s.waitingErrors(longWindow.length - slots)
	if s.chosen > 0 && recent > 0 { // the rate wanders, and longWindow has more errors than the last window
		tested++
	}
	for i := range tested {
		w, earlier := longWindow, before[last]+recent
		if i <= last {
			w, earlier = windows[i], before[i]
		}
		count, p := earlier+n, s.expect(c.usual, w.length)
		most := p.floor()
		if count > most {
			share := w.share(expected, s.chosen > 0) + sureness - s.doubt(expected)
			most = p.threshold(weight*max(share, min(share+more, maxLogP))) - 1
		}
		if count > most {
			found = Finding{Kind: Spike, Count: count, Expected: p.mean, LogP: p.logTail(float64(count)), Seconds: w.length}
			return found, limit, true
		}
		limit = min(limit, most-earlier)
	}
	return Finding{}, limit, false
}

// onset returns the second of the window in which the current spike began: the one from
// which the counts most exceed onsetRate and onsetTimes the usual rate.
func (c *core) onset() int64 {
	level := max(onsetRate, onsetTimes*c.usual.rate())
	most, from, sum := math.Inf(-1), c.at, 0.0
	for back := range int64(slots) {
		sum += float64(*c.slot(c.at - back)) - level
		if sum > most {
			most, from = sum, c.at-back
		}
	}
	return from
}

const onsetRate, onsetTimes = 1, 3

// slotClass is how a second that left the window counts.
type slotClass uint8

const (
	unknownSlot slotClass = iota // before since
	usualSlot                    // learned as usual
	episodeSlot                  // part of the current spike or burst
)

// tick begins the next second. The second whose slot it takes leaves the window; it had n
// errors.
func (c *core) tick() (n int64, class slotClass) {
	c.at++
	slot := c.slot(c.at)
	n, *slot = int64(*slot), 0
	gone := c.at - slots
	switch {
	case gone <= c.since:
		return n, unknownSlot
	case c.state != calm && gone >= c.from:
		return n, episodeSlot
	default:
		return n, usualSlot
	}
}

// windowHasErrors reports whether the window has errors. If not, seconds can be skipped.
func (c *core) windowHasErrors() bool { return c.at < c.lastError+slots }

// skip lets seconds pass with an empty window. audible is how many of them are before a
// silence, and effective how many seconds all of them count as.
func (c *core) skip(seconds int64) (audible int64, effective float64) {
	if c.at == c.lastError+slots {
		c.patience = slots + uint32(min(silenceAfter/c.usual.rate(), math.MaxUint32/2))
	}
	audible = min(max(c.lastError+int64(c.patience)-c.at, 0), seconds)
	c.at += seconds
	return audible, float64(audible) + float64(seconds-audible)/silenceSlowdown
}

// episodeOver reports whether the current spike is over: the count in 10 s is at most one
// over the expected. A limit of 1.5 times the expected would end spikes sooner, but large
// counts at that limit are spikes, and a rate that has doubled falls below it each minute
// by chance. A spike found in 2 s may not show in 10 s yet, so no spike ends before 10 s.
func (c *core) episodeOver() bool {
	return c.at-c.from >= slots && float64(c.count()) <= c.expected()+1
}

// expected returns how many errors are expected in 10 s.
func (c *core) expected() float64 { return slots * c.usual.rate() }
