// Package ratetail decides when errors come faster than they usually do, by how
// unlikely that is: the rule behind the mode rate-tail, beside the contract's
// rule in package anomaly.
//
// A Counter knows the errors of one app and signal in ten slots of a second, and
// of what was before them a count and an exposure in seconds, both discounted: with
// a half-life of 300 s, or of less where the rate wanders within minutes (scales.go).
// From these follows how many errors are to be
// expected in the newest 2, 4, 6 and 10 s, and how likely so many as came are:
// the tail of the Gamma-Poisson (negative binomial) predictive, which knows how
// little a young counter knows, widened by how much the errors of this stream
// cluster and how much its rate wanders. A spike is 5 errors or more in one of these
// windows with a tail under the window's share; the short ones are there to be quick
// where errors are few.
// It calms when the count in 10 s has come down to what is expected. What comes
// in between is not learned as usual.
//
// An incident (incident.go) is a spike with all that follow it within 120 s, and
// raises one alert. What was usual before is frozen until it ends, so that its
// errors never become their own measure. What stays for 15 min is the new level.
//
// Beside that a Counter finds slow drifts (drift.go), and bursts that come by a
// schedule, which have a lower severity while they are short, no larger than usual,
// and most requests succeed (recurring.go). Small is the spike alone, for when
// there are many, such as one for each error.
//
// Add is amortised constant: it compares with a limit that holds for a second,
// tails are computed only in a second in which the counts are unusual, and what
// passes without errors is skipped in closed form. A Counter takes the same
// memory whatever it is given.
//
// The package has no clock and knows nothing of what an error is. A time before
// the last one, in whole seconds, means that a clock was set back, and counting
// starts again.
package ratetail

import "math"

// The rule. Lengths are in seconds.
const (
	slots    = 10
	halfLife = 300
	// minSpike is how many errors a spike has at least.
	minSpike = 5
	// priorCount and priorExposure are what is believed before anything was seen.
	priorCount, priorExposure = 0.5, 1
	// For the first seconds that a stream is watched, young, next to nothing is known
	// of how its errors cluster. Shares are less by a factor, unsure: 50 errors at once
	// are a spike all the same, as an app that crashes at its start has them.
	young, unsure = 30, 1e-4
	// newLevel is how long a spike continues until it is the new level.
	newLevel = 900
	// quiet is for how long an incident has no spike when it ends.
	quiet = 120
	// A silence is when missed errors have failed to come. From then on time passes
	// slowdown times slower: that an app is not used for an hour says less about
	// what is usual than an hour of use.
	missed, slowdown = 5, 12
)

// window is how long one of the windows is, in slots, and the logarithm of the
// tail under which its count is a spike.
type window struct {
	length int64
	logP   float64
}

// windows are the windows, the longest last. The shares of the short ones are for
// streams with few errors, where they are quick; that of the longest is for busy
// ones: at 2 errors a second no other finds 30 more. What is in use of each goes
// from the one to the other, so that there are as few false alerts everywhere.
var windows = [...]window{
	{2, math.Log(1e-6)}, {4, math.Log(3e-6)}, {6, math.Log(2e-6)}, {slots, math.Log(1.5e-5)},
}

// longest is a window that reaches further back than the slots, into what is still to
// be learned. It is for rises of rates that wander, of which the others are less sure.
var longest = window{15, math.Log(1.5e-5)}

const (
	last = len(windows) - 1
	// A stream is busy with mostBusy expected errors in 10 s, and a share never under
	// leastBusy of itself. With more than tooBusy the shares become less again, down
	// to leastTooBusy: nobody hears of 30 more among 1000, and counts that are large
	// come nearer to their thresholds.
	mostBusy, leastBusy   = 20, 0.25
	tooBusy, leastTooBusy = 40, 0.05
	// leastWander is the least of that for a stream whose rate wanders. Its long windows
	// have wanderLong of the share, the more the fewer errors are expected in 10 s than
	// wanderMean, and the short ones wanderShort: rises are missed where the rate is low.
	leastWander             = 0.7
	wanderLong, wanderShort = 1.4, 0.5
	wanderMean, wanderLeast = 10, 0.5
)

// share is the tail in use, as a logarithm, of a stream with so many errors
// expected in 10 s.
func (w window) share(mean float64, wanders bool) float64 {
	part := min(1, max(mean/mostBusy, leastBusy))
	if wanders && w.length >= slots {
		part = max(part, leastWander)
	}
	if w.length < slots {
		part = leastBusy / part
	}
	if wanders {
		part *= max(wanderMean/max(mean, 1), wanderLeast)
		if w.length < slots {
			part *= wanderShort
		} else {
			part *= wanderLong
		}
	}
	return w.logP + math.Log(part*min(1, max(tooBusy/mean, leastTooBusy)))
}

// mostP is the largest tail that is a spike for errors that cluster, as a
// logarithm, and leniency the power of their spread by which the shares grow: a
// negative binomial has a heavier tail than the clusters that it stands for.
var mostP = math.Log(1e-3)

const leniency = 2.5

// level is how many errors came in how many seconds, discounted.
type level struct{ count, exposure float64 }

// memory is how fast a level forgets: what is left of it after a second, and the
// seconds after which that is half.
type memory struct{ left, half float64 }

func halving(half float64) memory { return memory{left: math.Exp2(-1 / half), half: half} }

var short = halving(halfLife)

// pass lets a second with n errors in.
func (l *level) pass(n float64, m memory) {
	l.count = l.count*m.left + n
	l.exposure = l.exposure*m.left + 1
}

// skip lets seconds without errors pass.
func (l *level) skip(seconds float64, m memory) {
	d := math.Exp2(-seconds / m.half)
	l.count *= d
	l.exposure = l.exposure*d + (1-d)/(1-m.left)
}

// rate is in errors a second.
func (l *level) rate() float64 { return (priorCount + l.count) / (priorExposure + l.exposure) }

// expect predicts the errors of some seconds, when their clusters have the given
// spread: 1 for errors that come one by one.
func (l *level) expect(seconds, spread float64) predictive {
	return predictive{mean: seconds * l.rate(), excess: spread*(1+seconds/(priorExposure+l.exposure)) - 1}
}
