package spike

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ratetail"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// counters count the errors of one signal of an app, one for each rule that the app needs.
// The counter of a rule that is not needed is nil.
type counters struct {
	ratio *RatioCounter
	tail  *ratetail.Counter
}

// keep returns the counters that are needed from now on. A new counter continues from what
// the other one knows, so that what has lasted does not look new.
func (c counters) keep(ratio, tail bool, now time.Time) (kept counters) {
	if ratio {
		kept.ratio = c.ratio
		if kept.ratio == nil {
			kept.ratio = ratioAfter(c.tail, now)
		}
	}
	if tail {
		kept.tail = c.tail
		if kept.tail == nil {
			kept.tail = tailAfter(c.ratio, now)
		}
	}
	return kept
}

// tailAfter returns a new counter with the errors that the other counter knows. ratio may be
// nil.
func tailAfter(ratio *RatioCounter, now time.Time) *ratetail.Counter {
	if ratio == nil {
		return ratetail.New(now)
	}
	ratio.Over(now) // forgets what is too old
	tail := ratetail.New(now.Add(-ratioMemory))
	for at, n := range ratio.Errors() {
		tail.Count(at, n)
	}
	tail.Over(now)
	return tail
}

// ratioAfter returns a new counter with the errors that the other counter knows. tail may be
// nil.
func ratioAfter(tail *ratetail.Counter, now time.Time) *RatioCounter {
	ratio := &RatioCounter{}
	if tail == nil {
		return ratio
	}
	tail.Over(now)
	for at, n := range tail.Errors(int64(ratioMemory / time.Second)) {
		ratio.Count(at, n)
	}
	ratio.Over(now)
	return ratio
}

// size is about how many bytes the counters take.
func (c counters) size() (bytes int) {
	if c.ratio != nil {
		bytes += c.ratio.Size()
	}
	if c.tail != nil {
		bytes += c.tail.Size()
	}
	return bytes
}

// recurred returns how many bursts came by a schedule and stayed at severity info.
func (c counters) recurred() uint64 {
	if c.tail == nil {
		return 0
	}
	return c.tail.Recurred()
}

func (c *counters) state(s *snapshot.Codec) {
	snapshot.Optional(s, 1, &c.ratio, (*RatioCounter).State)
	snapshot.Optional(s, 2, &c.tail, (*ratetail.Counter).State)
}
