package ratetail

import (
	"math"
	"time"
)

// core is what Counter and Small have in common: the newest slots, what is usual,
// and whether a spike continues. Times are in seconds since 1970.
type core struct {
	usual level
	// at is the second that continues, and lastError that of the newest error. Of
	// what was up to since, nothing is known.
	at, lastError, since int64
	// from is when what continues began.
	from  int64
	slots [slots]uint32
	state state
	// stayed reports whether the last spike ended by becoming the new level.
	stayed bool
	// patience is how many seconds after the newest error a silence begins. It is
	// found when that error leaves the window.
	patience uint32
}

// state is what continues.
type state uint8

const (
	calm state = iota
	// spiking: a spike was found that is not over.
	spiking
	// expected: a burst that comes by its schedule, and of which nothing is reported.
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

func begun(now time.Time) core {
	s := second(now)
	return core{at: s, lastError: s, since: s}
}

func (c *core) slot(s int64) *uint32 { return &c.slots[((s%slots)+slots)%slots] }

// add counts an error in the second that continues, and returns how many that has.
func (c *core) add() int64 {
	slot := c.slot(c.at)
	if *slot < math.MaxUint32 {
		*slot++
	}
	c.lastError = c.at
	return int64(*slot)
}

// count is the number of errors in the last 10 s.
func (c *core) count() (n int64) {
	for _, slot := range c.slots {
		n += int64(slot)
	}
	return n
}

// earlier is how many errors are in each window before the second that continues.
func (c *core) earlier() (before [len(windows)]int64) {
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

// test asks of every window whether its count is a spike, with n errors in the
// second that continues. If none is, no more than limit in it are one either.
func (c *core) test(before *[len(windows)]int64, n int64, s *scales) (found Finding, limit int64, spike bool) {
	weight := s.weight()
	more, expected := leniency*math.Log(s.clusters()), c.expected()
	limit = math.MaxInt64
	sureness := 0.0
	if c.at-c.since < young {
		sureness = math.Log(unsure)
	}
	of := len(windows)
	recent := s.recent(longest.length - slots)
	if s.chosen > 0 && recent > 0 { // the rate wanders, and it has more than the last one
		of++
	}
	for i := range of {
		w, earlier := longest, before[last]+recent
		if i <= last {
			w, earlier = windows[i], before[i]
		}
		count, p := earlier+n, s.expect(c.usual, w.length)
		most := p.floor()
		if count > most {
			share := w.share(expected, s.chosen > 0) + sureness - s.doubt(expected)
			most = p.threshold(weight*max(share, min(share+more, mostP))) - 1
		}
		if count > most {
			found = Finding{Kind: Spike, Count: count, Expected: p.mean, LogP: p.logTail(float64(count)), Seconds: w.length}
			return found, limit, true
		}
		limit = min(limit, most-earlier)
	}
	return Finding{}, limit, false
}

// onset is in which second of the window what continues began: from there on the
// counts are most over both onsetRate and onsetTimes what is usual.
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

// slotClass is what a second that left the window counts as.
type slotClass uint8

const (
	unknownSlot slotClass = iota // before since
	usualSlot                    // learned as usual
	heldSlot                     // part of what continues
)

// tick begins the next second. The one whose slot it takes leaves the window,
// with n errors.
func (c *core) tick() (n int64, class slotClass) {
	c.at++
	slot := c.slot(c.at)
	n, *slot = int64(*slot), 0
	gone := c.at - slots
	switch {
	case gone <= c.since:
		return n, unknownSlot
	case c.state != calm && gone >= c.from:
		return n, heldSlot
	default:
		return n, usualSlot
	}
}

// full reports whether the window still has errors, so that each second counts.
func (c *core) full() bool { return c.at < c.lastError+slots }

// skip lets seconds pass in which nothing is in the window and nothing comes.
// heard is how many of them are not part of a silence, and felt how many they count
// as.
func (c *core) skip(seconds int64) (heard int64, felt float64) {
	if c.at == c.lastError+slots {
		c.patience = slots + uint32(min(missed/c.usual.rate(), math.MaxUint32/2))
	}
	heard = min(max(c.lastError+int64(c.patience)-c.at, 0), seconds)
	c.at += seconds
	return heard, float64(heard) + float64(seconds-heard)/slowdown
}

// calmed reports whether what continues is over: the count is at what is expected in
// 10 s, or one more. Half as many more would be over sooner, but where many are
// expected that is a spike itself, and where some are, twice as many that stay come
// under it each minute by chance. As what was found in 2 s may not show in 10 s yet,
// nothing is over before that long.
func (c *core) calmed() bool {
	return c.at-c.from >= slots && float64(c.count()) <= c.expected()+1
}

// expected is how many errors are expected in 10 s.
func (c *core) expected() float64 { return slots * c.usual.rate() }
