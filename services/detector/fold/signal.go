package fold

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/anomaly"
	"github.com/tocsin-bus/tocsin/services/detector/ratetail"
	"github.com/tocsin-bus/tocsin/services/detector/rules"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// signal counts the errors of one signal of an app, for the rules that the app is
// judged by: the others are nil.
type signal struct {
	ratio *anomaly.Counter
	tail  *ratetail.Counter
}

// newSignal makes one of a stream that is watched from now on.
func newSignal(by rules.Anomaly, now time.Time) signal {
	return signal{}.judgedBy(by, now)
}

// judgedBy is the signal with what a rule needs: what it lacks begins now, and what
// it has no use for any more is forgotten.
func (s signal) judgedBy(by rules.Anomaly, now time.Time) signal {
	ratio, tail := by != rules.RateTail, by != rules.Ratio3x
	if !ratio {
		s.ratio = nil
	} else if s.ratio == nil {
		s.ratio = &anomaly.Counter{}
	}
	if !tail {
		s.tail = nil
	} else if s.tail == nil {
		s.tail = ratetail.New(now)
	}
	return s
}

// Size is about how many bytes it takes.
func (s signal) Size() (bytes int) {
	if s.ratio != nil {
		bytes += s.ratio.Size()
	}
	if s.tail != nil {
		bytes += s.tail.Size()
	}
	return bytes
}

// heldBack is how many bursts came by a schedule and were not told.
func (s signal) heldBack() uint64 {
	if s.tail == nil {
		return 0
	}
	return s.tail.HeldBack()
}

func (s signal) save(w *snapshot.Writer) {
	w.Bool(s.ratio != nil)
	if s.ratio != nil {
		s.ratio.Save(w)
	}
	w.Bool(s.tail != nil)
	if s.tail != nil {
		s.tail.Save(w)
	}
}

// restoreSignal reads what save wrote. Errors are in r.
func restoreSignal(r *snapshot.Reader) (s signal) {
	trust := r.Has(snapshot.Trust) // before, there was the one rule
	if !trust || r.Bool() {
		s.ratio = anomaly.Restore(r)
	}
	if trust && r.Bool() {
		s.tail = ratetail.Restore(r)
	}
	return s
}
