package errortrack

import (
	"math"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ratetail"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// The rule for an error that escalates. ratetail.Small finds that it comes far faster than
// it did. But there are thousands of errors, and a single error comes in bursts far more
// than all of an app's together, as when a page fails in five places or a client tries
// three times. So a few errors are no escalation, however unlikely, and neither is a burst
// like earlier ones of this error.
const (
	// minEscalation is the least number of errors in 10 s that is an escalation.
	minEscalation = 10
	// largerBurst is how many times the largest burst so far an escalation has to be.
	largerBurst = 2
	// burstHalfLife is the time after which a burst counts half.
	burstHalfLife = 3 * time.Hour
)

// maxLogP bounds the logarithm of the probability of so many or more: 1e-9, so that of 5000
// errors that come by chance hardly one escalates in a day.
var maxLogP = math.Log(1e-9)

// rate is how fast an error comes.
type rate struct {
	small ratetail.Small
	// burst is the largest burst so far, in errors per 10 s, at a time in milliseconds.
	burst   float64
	burstAt int64
	// peak is the most errors in 10 s of the current burst, 0 without one, and escalated
	// reports whether it was found.
	peak      int64
	escalated bool
}

// rateSize is what a rate takes, in bytes.
const rateSize = ratetail.SmallSize + 32

func newRate(now time.Time) *rate { return &rate{small: ratetail.NewSmall(now)} }

// add counts an error, and reports whether it begins to escalate.
func (r *rate) add(now time.Time) (ratetail.Finding, bool) {
	_, began := r.small.Add(now)
	if began {
		r.endBurst(now)
	} else if r.peak == 0 {
		return ratetail.Finding{}, false
	}
	counted, burstOver, _ := r.small.Over(now)
	if burstOver {
		r.endBurst(now)
		return ratetail.Finding{}, false
	}
	r.peak = max(r.peak, counted.Count)
	if r.escalated || counted.Count < minEscalation || float64(counted.Count) < largerBurst*r.usualBurst(now) {
		return ratetail.Finding{}, false
	}
	found := r.small.Current(now)
	r.escalated = found.LogP <= maxLogP
	return found, r.escalated
}

// endBurst ends the current burst.
func (r *rate) endBurst(now time.Time) {
	if r.peak == 0 {
		return
	}
	r.burst, r.burstAt = max(r.usualBurst(now), float64(r.peak)), now.UnixMilli()
	r.peak, r.escalated = 0, false
}

// usualBurst returns the size of usual bursts, in errors per 10 s.
func (r *rate) usualBurst(now time.Time) float64 {
	gone := max(now.UnixMilli()-r.burstAt, 0)
	return r.burst * math.Exp2(-float64(gone)/float64(burstHalfLife.Milliseconds()))
}

// advance lets time pass, and reports whether the escalation has ended and whether the
// state has changed. end is what is counted now.
func (r *rate) advance(now time.Time) (end ratetail.Finding, ended, changed bool) {
	end, burstOver, moved := r.small.Over(now)
	if burstOver && r.peak > 0 {
		r.endBurst(now)
		moved = true
	}
	return end, !r.escalated, moved
}

func (r *rate) state(s *snapshot.State) {
	snapshot.Message(s, 1, &r.small, (*ratetail.Small).State)
	s.Float(2, &r.burst, 0, math.MaxFloat64)
	snapshot.Int(s, 3, &r.burstAt, snapshot.AnyInt)
	snapshot.Uint(s, 4, &r.peak, math.MaxInt64)
	s.Bool(5, &r.escalated)
}
