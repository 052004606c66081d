package spike

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/anomaly"
	"github.com/tocsin-bus/tocsin/services/detector/ratetail"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// signal counts the errors of one signal of an app, by the rules that the app needs. The
// others are nil.
type signal struct {
	ratio *anomaly.Counter
	tail  *ratetail.Counter
}

// with returns the signal with the counters that are needed from now on. A new counter
// continues from what the other one knows, so that nothing that lasts looks new.
func (s signal) with(ratio, tail bool, now time.Time) signal {
	var next signal
	switch {
	case !ratio:
	case s.ratio != nil:
		next.ratio = s.ratio
	default:
		next.ratio = ratioAfter(s.tail, now)
	}
	switch {
	case !tail:
	case s.tail != nil:
		next.tail = s.tail
	default:
		next.tail = tailAfter(s.ratio, now)
	}
	return next
}

// tailAfter returns a counter that starts with the errors that another one knows.
func tailAfter(ratio *anomaly.Counter, now time.Time) *ratetail.Counter {
	if ratio == nil {
		return ratetail.New(now)
	}
	ratio.Over(now) // forgets what is too old
	tail := ratetail.New(now.Add(-anomaly.Memory))
	for at, n := range ratio.Errors() {
		tail.Count(at, n)
	}
	tail.Over(now)
	return tail
}

// ratioAfter is tailAfter the other way round.
func ratioAfter(tail *ratetail.Counter, now time.Time) *anomaly.Counter {
	ratio := &anomaly.Counter{}
	if tail == nil {
		return ratio
	}
	tail.Over(now)
	for at, n := range tail.Errors(int64(anomaly.Memory / time.Second)) {
		ratio.Count(at, n)
	}
	ratio.Over(now)
	return ratio
}

// size is about how many bytes it takes.
func (s signal) size() (bytes int) {
	if s.ratio != nil {
		bytes += s.ratio.Size()
	}
	if s.tail != nil {
		bytes += s.tail.Size()
	}
	return bytes
}

// recurred returns how many bursts came by a schedule and were not raised to errors.
func (s signal) recurred() uint64 {
	if s.tail == nil {
		return 0
	}
	return s.tail.Recurred()
}

func (s *signal) state(st *snapshot.State) {
	snapshot.Optional(st, 1, &s.ratio, (*anomaly.Counter).State)
	snapshot.Optional(st, 2, &s.tail, (*ratetail.Counter).State)
}
