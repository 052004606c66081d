package ratetail

import "math"

// scales learns a stream at several time scales: its rate, by levels that forget in minutes
// and in seconds, and how much counts vary around the prediction of each level. A level
// with a short memory follows a rate that wanders within minutes; one with a long memory
// knows a steady rate better. The level that best predicted the blocks of the last hour is
// chosen.
//
// Counts vary more than those of errors that come one by one for two reasons. Errors that
// come in clusters vary as much in 2 s as in 10 s; a rate that wanders varies more, the
// longer the time. So both spreads are learned.
type scales struct {
	levels  [numScales]level
	spreads [numScales]spread
	// scores are the discounted logarithms of the likelihood that each level gave the
	// blocks.
	scores [numScales]float64
	chosen int
	// fine is the spread of blocks of fineBlock seconds. part is the current one.
	fine spread
	part struct{ seconds, errors int64 }
	// tail is how heavy the tails of the counts are.
	tail tail
	// waiting has the errors of the seconds that are not learned yet, the oldest first.
	waiting  [learnDelay]uint32
	nwaiting int
}

const (
	numScales = 3
	fineBlock = 2
	// leastMean is the least mean of a block that counts for choosing a level. A level
	// replaces the chosen one if its score, a logarithm, is more than betterBy higher.
	leastMean, betterBy = 1, 6
	// learnDelay is how many seconds after it left the window a second is learned.
	// Otherwise a level that forgets in seconds would learn a spike before it is found.
	learnDelay = 5
	// newestWander is how much further a rate has wandered by the newest second than on
	// average in the window, as a part of the latter.
	newestWander = 0.5
)

// tail estimates how much heavier the tail of the counts is than that of the predictive
// (Hill's estimator of an exponential tail): how far the logarithms of the tails of large
// counts are beyond a limit, on average. If the predictive is right, that is 1.
type tail struct{ beyond, counts float64 }

const (
	// A count is large if its tail is under tailLimit, and counts as at most tailClip beyond
	// that, both as logarithms. tailPrior is the weight of the prior in counts: that the
	// predictive is right. tailDoubt is the deviation that may be by chance.
	tailClip, tailPrior, tailDoubt = 3, 20, -0.05
	tailHalfLife                   = 6 * 3600
	tailGain                       = 3
	// smallMean is the mean up to which the tails of neighboring counts are far apart.
	smallMean = 200
)

var tailLimit = math.Log(0.1)

// addCount adds a count, and the distribution that predicted it.
func (t *tail) addCount(n float64, p predictive) {
	if n <= max(p.mean, 1) {
		return
	}
	logP := p.logTail(n)
	if logP >= tailLimit {
		return
	}
	// Where counts are small, the first large one may be far beyond the limit.
	from := tailLimit
	if p.mean < smallMean {
		from = logP
		for k := n - 1; k >= 1; k-- {
			if before := p.logTail(k); before < tailLimit {
				from = before
			} else {
				break
			}
		}
	}
	t.beyond += min(from-logP, tailClip)
	t.counts++
}

func (t *tail) pass(seconds float64) {
	d := math.Exp2(-seconds / tailHalfLife)
	t.beyond *= d
	t.counts *= d
}

// weight returns the factor for the logarithm of a share of alerts.
func (t *tail) weight() float64 {
	clipped := 1 - math.Exp(-tailClip) // the average if the predictive is right
	return 1 + max(0, ((tailPrior+t.beyond/clipped)/(tailPrior+t.counts)-1-tailDoubt)*tailGain)
}

// memories are the half-lives of the levels, the longest first.
var memories = [numScales]memory{shortMemory, halving(50), halving(15)}

// learnedFrom returns the exposure from which on a level predicts something.
func learnedFrom(scale int) float64 { return min(spreadFrom, memories[scale].half) }

// usual returns the chosen level.
func (s *scales) usual() level { return s.levels[s.chosen] }

// pass adds a second with n errors.
func (s *scales) pass(n int64) {
	s.part.errors += n
	if s.part.seconds++; s.part.seconds == fineBlock {
		s.fine.addBlocks(float64(s.part.errors), 1, fineBlock, s.usual(), learnedFrom(s.chosen))
		s.part.seconds, s.part.errors = 0, 0
	}
	if s.nwaiting == learnDelay {
		s.learn()
	}
	s.waiting[s.nwaiting] = uint32(min(n, math.MaxUint32))
	s.nwaiting++
}

// learn adds the second that has waited longest to the levels.
func (s *scales) learn() {
	n := float64(s.waiting[0])
	copy(s.waiting[:], s.waiting[1:s.nwaiting])
	s.nwaiting--
	for i := range s.levels {
		s.levels[i].pass(n, memories[i])
	}
}

// waitingErrors returns the errors in the newest of the seconds that wait.
func (s *scales) waitingErrors(seconds int64) (n int64) {
	for _, errors := range s.waiting[max(0, s.nwaiting-int(seconds)):s.nwaiting] {
		n += int64(errors)
	}
	return n
}

// dropWaiting drops the seconds that wait. A spike that was found may have begun in them.
func (s *scales) dropWaiting() { s.nwaiting = 0 }

// skip adds seconds without errors.
func (s *scales) skip(seconds float64) {
	for s.nwaiting > 0 && seconds > 0 {
		s.learn()
	}
	for i := range s.levels {
		s.levels[i].skip(seconds, memories[i])
	}
	s.part.seconds, s.part.errors = 0, 0
}

// addBlocks adds a number of blocks of 10 s with n errors each and the levels before them,
// and chooses a level.
func (s *scales) addBlocks(n, blocks float64, before *[numScales]level) {
	if blocks == 0 {
		return
	}
	s.tail.addCount(n, s.expect(before[s.chosen], block))
	s.tail.pass(blocks * block)
	d := math.Exp2(-blocks * block / spreadHalfLife)
	scored := before[0].exposure >= spreadFrom && block*before[0].rate() >= leastMean
	for i := range s.levels {
		s.scores[i] *= d
		if scored {
			s.scores[i] += blocks * before[i].expect(block, s.spreads[i].factor()).logMass(n)
		}
		s.spreads[i].addBlocks(n, blocks, block, before[i], learnedFrom(i))
	}
	for i, score := range s.scores {
		if score > s.scores[s.chosen]+betterBy {
			s.chosen = i
		}
	}
}

// addSpike learns from a spike of a stream with frequent spikes, with n errors in 10 s and
// fine errors in fineBlock.
func (s *scales) addSpike(n, fine int64) {
	for i := range s.levels {
		s.spreads[i].addBlocks(float64(n), 1, block, s.levels[i], learnedFrom(i))
	}
	s.fine.addBlocks(float64(fine), 1, fineBlock, s.usual(), learnedFrom(s.chosen))
}

// skipUnknown lets the seconds of a silence pass, which teach nothing.
func (s *scales) skipUnknown(seconds float64) {
	d := math.Exp2(-seconds / spreadHalfLife)
	for i := range s.spreads {
		s.spreads[i].pass(seconds)
		s.scores[i] *= d
	}
	s.fine.pass(seconds)
	s.tail.pass(seconds)
}

// setLevel makes a level the usual one.
func (s *scales) setLevel(l level) {
	rate := l.count / max(l.exposure, 1)
	for i := range s.levels {
		exposure := min(l.exposure, 1/(1-memories[i].left))
		s.levels[i] = level{count: rate * exposure, exposure: exposure}
	}
}

// clusters returns the part of the spread that is due to errors at the same time: the limit
// of the spread for shorter and shorter times.
func (s *scales) clusters() float64 {
	fine, coarse := s.fine.factor(), s.spreads[s.chosen].factor()
	return min(max(1, fine-(coarse-fine)*fineBlock/(slots-fineBlock)), coarse)
}

// weight returns the factor for the logarithm of a share. It is over 1 only for a rate that
// wanders: clusters have lighter tails than the predictive, and errors that come one by one
// have its tails.
func (s *scales) weight() float64 {
	wanders := min(1, 3*(s.spreads[s.chosen].factor()-1)) * max(0, 2-s.clusters())
	return 1 + (s.tail.weight()-1)*wanders
}

// doubt returns by how much, as a logarithm, shares are smaller for a rate that wanders
// much, given the errors expected in 10 s.
func (s *scales) doubt(expected float64) float64 {
	if s.chosen == 0 {
		return 0
	}
	return math.Log1p(doubtGain * (s.spreads[s.chosen].factor() - 1) / max(expected, 1))
}

// With a variance of the rate of one in doubtGain of its square, shares are half as large.
const doubtGain = 10

// expect predicts the errors of some seconds from a usual level. The part of the spread
// that is due to a wandering rate grows with the expected errors.
func (s *scales) expect(l level, seconds int64) predictive {
	known, clusters, times := &s.spreads[s.chosen], s.clusters(), float64(seconds)/slots
	if known.means > 0 {
		times = float64(seconds) * l.rate() * known.expected / known.means
	}
	if seconds < slots {
		// The newest seconds are further from what is learned than a whole window.
		times *= 1 + newestWander*(1-float64(seconds)/slots)
	}
	return l.expect(float64(seconds), clusters+(known.factor()-clusters)*times)
}
