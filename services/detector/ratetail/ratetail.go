// Package ratetail finds errors that come faster than usual, by how unlikely their number
// is: the rule rate-tail. Package spike has the rule of the specification, ratio3x.
//
// A Counter keeps the errors of one app and signal in ten slots of a second. Of earlier
// seconds it keeps a count and an exposure in seconds, both discounted with a half-life of
// 300 s, or less where the rate wanders within minutes (scales.go). They give the number of
// errors to expect in the newest 2, 4, 6 and 10 s, and the probability of as many as came:
// the tail of the Gamma-Poisson (negative binomial) predictive distribution. It accounts
// for the little that a young counter knows, and is widened by how much the errors of this
// stream cluster and how much its rate wanders. A spike is at least 5 errors in one of
// these windows with a tail under the window's share. The short windows find spikes quickly
// where errors are few. A spike calms when the count in 10 s has come down to what is
// expected. Its errors are not learned as usual.
//
// An incident (incident.go) is a spike with all that follow it within 120 s, and raises one
// alert. The usual rate before it is frozen until it ends, so its errors never count as
// usual. If it lasts for 15 min, its rate becomes the usual one: the new level.
//
// A Counter also finds slow drifts (drift.go), and bursts that come by a schedule, which
// have a lower severity while they are short, no larger than usual, and most requests
// succeed (recurring.go). [Small] finds spikes only, and takes little memory.
//
// Add takes amortized constant time: it compares with a limit that holds for a second,
// computes tails only in a second with an unusual count, and skips time without errors in
// closed form. A Counter has a constant size.
//
// The package has no clock and does not know what an error is. A time before the last one,
// in whole seconds, means that a clock was set back; counting starts again.
package ratetail

import "math"

// The rule. Lengths are in seconds.
const (
	slots    = 10
	halfLife = 300
	// minSpike is how many errors a spike has at least.
	minSpike = 5
	// priorCount and priorExposure are the prior of a level: errors, and seconds.
	priorCount, priorExposure = 0.5, 1
	// In the first youngFor seconds of a stream little is known of how its errors cluster,
	// so shares are smaller by youngFactor. 50 errors at once are still a spike, such as
	// those of an app that crashes at its start.
	youngFor, youngFactor = 30, 1e-4
	// newLevel is how long a spike lasts until it is the new level.
	newLevel = 900
	// quietPeriod is how long an incident has no spike before it ends.
	quietPeriod = 120
	// A silence begins when silenceAfter expected errors have not come. In a silence time
	// passes silenceSlowdown times slower, because it may be that the app is not used.
	silenceAfter, silenceSlowdown = 5, 12
)

// window is a window in slots, and the logarithm of the tail under which its count is a
// spike.
type window struct {
	length int64
	logP   float64
}

// windows lists the windows, the longest last. Short windows have the larger share where
// errors are few, because they are quick; the longest has it for busy streams, where no
// other finds 30 more at 2 errors a second. The method share interpolates by the expected
// count, which keeps the rate of false alerts about constant.
var windows = [...]window{
	{2, math.Log(1e-6)}, {4, math.Log(3e-6)}, {6, math.Log(2e-6)}, {slots, math.Log(1.5e-5)},
}

// longWindow reaches further back than the slots, into seconds that are not learned yet. It
// is for rises of rates that wander, about which the other windows are less certain.
var longWindow = window{15, math.Log(1.5e-5)}

const (
	last = len(windows) - 1
	// A stream is busy from busyMean expected errors in 10 s on; below that, the share of the
	// longest window shrinks to busyLeastPart. Over veryBusyMean, all shares shrink to
	// veryBusyLeastPart: 30 more among 1000 are not worth an alert.
	busyMean, busyLeastPart         = 20, 0.25
	veryBusyMean, veryBusyLeastPart = 40, 0.05
	// For a stream whose rate wanders the least part is wanderLeastPart. Its long windows
	// have wanderLong times the share, its short ones wanderShort times. Both grow below
	// wanderMean expected errors in 10 s, because rises are missed where the rate is low.
	wanderLeastPart               = 0.7
	wanderLong, wanderShort       = 1.4, 0.5
	wanderMean, wanderLeastFactor = 10, 0.5
)

// share returns the tail under which a count is a spike, as a logarithm, for a stream with
// mean expected errors in 10 s.
func (w window) share(mean float64, wanders bool) float64 {
	part := min(1, max(mean/busyMean, busyLeastPart))
	if wanders && w.length >= slots {
		part = max(part, wanderLeastPart)
	}
	if w.length < slots {
		part = busyLeastPart / part
	}
	if wanders {
		part *= max(wanderMean/max(mean, 1), wanderLeastFactor)
		if w.length < slots {
			part *= wanderShort
		} else {
			part *= wanderLong
		}
	}
	return w.logP + math.Log(part*min(1, max(veryBusyMean/mean, veryBusyLeastPart)))
}

// maxLogP is the largest tail that is a spike for errors that cluster, as a logarithm.
// Shares grow with the spread of clusters to the power of clusterLeniency: a negative
// binomial has a heavier tail than the clusters that it models.
var maxLogP = math.Log(1e-3)

const clusterLeniency = 2.5

// level is a number of errors in a number of seconds, both discounted.
type level struct{ count, exposure float64 }

// memory is how fast a level forgets: left is the part that is left after a second, half
// the half-life in seconds.
type memory struct{ left, half float64 }

func halving(half float64) memory { return memory{left: math.Exp2(-1 / half), half: half} }

var shortMemory = halving(halfLife)

// pass adds a second with n errors.
func (l *level) pass(n float64, m memory) {
	l.count = l.count*m.left + n
	l.exposure = l.exposure*m.left + 1
}

// skip adds seconds without errors.
func (l *level) skip(seconds float64, m memory) {
	d := math.Exp2(-seconds / m.half)
	l.count *= d
	l.exposure = l.exposure*d + (1-d)/(1-m.left)
}

// rate returns errors per second.
func (l *level) rate() float64 { return (priorCount + l.count) / (priorExposure + l.exposure) }

// expect predicts the errors of some seconds, whose clusters have the given spread: 1 for
// errors that come one by one.
func (l *level) expect(seconds, spread float64) predictive {
	return predictive{mean: seconds * l.rate(), excess: spread*(1+seconds/(priorExposure+l.exposure)) - 1}
}
