package errortrack

import (
	"math"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ratetail"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// The rule for an error that escalates. ratetail.Small finds that an error comes far faster
// than before. But there are thousands of errors, and a single one comes in bursts more often
// than the errors of an app together: a page fails in five places, a client tries three times.
// So a few errors are no escalation even if they are very unlikely, and neither is a burst
// like earlier ones of the same error.
const (
	// minEscalation is the least number of errors in 10 s that is an escalation.
	minEscalation = 10
	// burstFactor is how many times larger than usual bursts an escalation is, at least.
	burstFactor = 2
	// burstHalfLife is the time after which the size of a burst counts half.
	burstHalfLife = 3 * time.Hour
)

// maxLogP is the largest logarithm of the probability of so many errors or more. It is 1e-9:
// of 5000 errors that come by chance, hardly one escalates in a day.
var maxLogP = math.Log(1e-9)

// rate is how fast an error comes.
type rate struct {
	small ratetail.Small
	// burst is the size of usual bursts at burstTime, in errors per 10 s. burstTime is in
	// milliseconds since 1970.
	burst     float64
	burstTime int64
	// peak is the largest number of errors in 10 s of the current burst, or 0 without one.
	// escalated reports whether that burst is an escalation.
	peak      int64
	escalated bool
}

// rateSize is what a rate takes, in bytes.
const rateSize = ratetail.SmallSize + 32

func newRate(now time.Time) *rate { return &rate{small: ratetail.NewSmall(now)} }

// add counts an error, and reports whether it begins to escalate.
func (r *rate) add(now time.Time) (ratetail.Finding, bool) {
	_, begins := r.small.Add(now)
	if begins {
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
	if r.escalated || counted.Count < minEscalation || float64(counted.Count) < burstFactor*r.usualBurst(now) {
		return ratetail.Finding{}, false
	}
	found := r.small.Current(now)
	r.escalated = found.LogP <= maxLogP
	return found, r.escalated
}

// endBurst ends the current burst, which updates the size of usual ones.
func (r *rate) endBurst(now time.Time) {
	if r.peak == 0 {
		return
	}
	r.burst, r.burstTime = max(r.usualBurst(now), float64(r.peak)), now.UnixMilli()
	r.peak, r.escalated = 0, false
}

// usualBurst returns the size of usual bursts, in errors per 10 s.
func (r *rate) usualBurst(now time.Time) float64 {
	passed := max(now.UnixMilli()-r.burstTime, 0)
	return r.burst * math.Exp2(-float64(passed)/float64(burstHalfLife.Milliseconds()))
}

// advance lets time pass, and reports whether the escalation has ended and whether the state
// has changed. end has the present counts.
func (r *rate) advance(now time.Time) (end ratetail.Finding, ended, changed bool) {
	end, burstOver, moved := r.small.Over(now)
	if burstOver && r.peak > 0 {
		r.endBurst(now)
		moved = true
	}
	return end, !r.escalated, moved
}

func (r *rate) state(s *snapshot.Codec) {
	snapshot.Message(s, 1, &r.small, (*ratetail.Small).State)
	s.Float(2, &r.burst, 0, math.MaxFloat64)
	snapshot.Int(s, 3, &r.burstTime, snapshot.AnyInt)
	snapshot.Uint(s, 4, &r.peak, math.MaxInt64)
	s.Bool(5, &r.escalated)
}
