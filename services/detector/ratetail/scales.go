package ratetail

import "math"

// scales is what is learned of a stream at several time scales: how fast its errors
// come by levels that forget in minutes and in seconds, and how much counts vary
// around what each of them predicts. A rate that wanders within minutes is known
// better by a level that forgets sooner; one that is steady by a level that
// remembers. The level that predicted the blocks of the last hour best is chosen.
//
// Counts vary more than those of errors that come one by one for two reasons. Errors
// that come in clusters vary as much in 2 s as in 10 s; a rate that wanders varies the
// more, the longer the time. So the spread is learned of both.
type scales struct {
	levels  [numScales]level
	spreads [numScales]spread
	// scores are the logarithms of how likely each made the blocks, discounted.
	scores [numScales]float64
	chosen int
	// fine is the spread of fineBlock seconds, of which the errors and seconds that
	// continues are gathered in part.
	fine spread
	part struct{ seconds, errors int64 }
	// tail is how heavy the tails of the counts are.
	tail tail
	// waiting are the errors of the seconds, the oldest first, that are still to be
	// learned.
	waiting [lag]uint32
	waits   int
}

const (
	numScales = 3
	fineBlock = 2
	// leastMean is how many errors a block has on average, at least, when it says
	// which level is best, and betterBy by how much, as a logarithm, the chosen one
	// was worse when another is.
	leastMean, betterBy = 1, 6
	// lag is for how many seconds more than a window what came is not learned. Else a
	// level that forgets in seconds has learned a spike by the time it is found.
	lag = 5
	// newest is how much more a rate has wandered by the newest second than in the
	// whole window, as a part of that.
	newest = 0.5
)

// tail is how much heavier the tail of the counts is than the predictive's: how far
// the logarithms of the tails of large counts are beyond a limit, on average. That is
// 1 where the predictive is right, and its share of alerts grows with it (Hill's
// estimator of an exponential tail).
type tail struct{ beyond, counts float64 }

const (
	// tailFrom is the tail from which on a count is large, tailClip how far beyond one
	// counts at most, both as logarithms; tailPrior is how many counts of a right
	// predictive are believed before, and tailDoubt what may be found by chance.
	tailClip, tailPrior, tailDoubt = 3, 20, -0.05
	tailHalfLife                   = 6 * 3600
	tailGain                       = 3
	// smallMean is the mean up to which tails are far from one count to the next.
	smallMean = 200
)

var tailFrom = math.Log(0.1)

// see takes in a count of which p was the predictive.
func (t *tail) see(n float64, p predictive) {
	if n <= max(p.mean, 1) {
		return
	}
	logP := p.logTail(n)
	if logP >= tailFrom {
		return
	}
	// Where counts are small, the first that is large may be far beyond the limit.
	from := tailFrom
	if p.mean < smallMean {
		from = logP
		for k := n - 1; k >= 1; k-- {
			if before := p.logTail(k); before < tailFrom {
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

// weight is what the logarithm of a share of alerts is to be multiplied by.
func (t *tail) weight() float64 {
	clipped := 1 - math.Exp(-tailClip) // what a right predictive has on average
	return 1 + max(0, ((tailPrior+t.beyond/clipped)/(tailPrior+t.counts)-1-tailDoubt)*tailGain)
}

// memories are the half-lives of the levels, the longest first.
var memories = [numScales]memory{short, halving(50), halving(15)}

// learnedFrom is the exposure from which on a level predicts something.
func learnedFrom(scale int) float64 { return min(spreadFrom, memories[scale].half) }

// usual is the level that is chosen.
func (s *scales) usual() level { return s.levels[s.chosen] }

// pass lets a second with n errors in.
func (s *scales) pass(n int64) {
	s.part.errors += n
	if s.part.seconds++; s.part.seconds == fineBlock {
		s.fine.see(float64(s.part.errors), 1, fineBlock, s.usual(), learnedFrom(s.chosen))
		s.part.seconds, s.part.errors = 0, 0
	}
	if s.waits == lag {
		s.learn()
	}
	s.waiting[s.waits] = uint32(min(n, math.MaxUint32))
	s.waits++
}

// learn takes in the second that waits for the longest.
func (s *scales) learn() {
	n := float64(s.waiting[0])
	copy(s.waiting[:], s.waiting[1:s.waits])
	s.waits--
	for i := range s.levels {
		s.levels[i].pass(n, memories[i])
	}
}

// recent is how many errors came in the newest seconds of those that wait.
func (s *scales) recent(seconds int64) (n int64) {
	for _, of := range s.waiting[max(0, s.waits-int(seconds)):s.waits] {
		n += int64(of)
	}
	return n
}

// forget drops what waits: a spike was found, which may have begun in it.
func (s *scales) forget() { s.waits = 0 }

// skip lets seconds without errors pass.
func (s *scales) skip(seconds float64) {
	for s.waits > 0 && seconds > 0 {
		s.learn()
	}
	for i := range s.levels {
		s.levels[i].skip(seconds, memories[i])
	}
	s.part.seconds, s.part.errors = 0, 0
}

// see takes in a number of blocks of 10 s with n errors each, when the levels were
// those before, and chooses.
func (s *scales) see(n, blocks float64, before *[numScales]level) {
	if blocks == 0 {
		return
	}
	s.tail.see(n, s.expect(before[s.chosen], block))
	s.tail.pass(blocks * block)
	d := math.Exp2(-blocks * block / spreadHalfLife)
	asked := before[0].exposure >= spreadFrom && block*before[0].rate() >= leastMean
	for i := range s.levels {
		s.scores[i] *= d
		if asked {
			s.scores[i] += blocks * before[i].expect(block, s.spreads[i].factor()).logMass(n)
		}
		s.spreads[i].see(n, blocks, block, before[i], learnedFrom(i))
	}
	for i, score := range s.scores {
		if score > s.scores[s.chosen]+betterBy {
			s.chosen = i
		}
	}
}

// spike takes in a spike of a stream that has them all the time, with n errors in 10 s
// and some in fineBlock.
func (s *scales) spike(n, fine int64) {
	for i := range s.levels {
		s.spreads[i].see(float64(n), 1, block, s.levels[i], learnedFrom(i))
	}
	s.fine.see(float64(fine), 1, fineBlock, s.usual(), learnedFrom(s.chosen))
}

// passBlind lets seconds pass of which nothing is known.
func (s *scales) passBlind(seconds float64) {
	d := math.Exp2(-seconds / spreadHalfLife)
	for i := range s.spreads {
		s.spreads[i].pass(seconds)
		s.scores[i] *= d
	}
	s.fine.pass(seconds)
	s.tail.pass(seconds)
}

// settle makes a level the usual one.
func (s *scales) settle(l level) {
	rate := l.count / max(l.exposure, 1)
	for i := range s.levels {
		exposure := min(l.exposure, 1/(1-memories[i].left))
		s.levels[i] = level{count: rate * exposure, exposure: exposure}
	}
}

// clusters is the part of the spread that errors have that come at the same time: what
// it is when the time becomes shorter and shorter.
func (s *scales) clusters() float64 {
	fine, coarse := s.fine.factor(), s.spreads[s.chosen].factor()
	return min(max(1, fine-(coarse-fine)*fineBlock/(slots-fineBlock)), coarse)
}

// weight is what the logarithm of a share of alerts is to be multiplied by, where the
// spread comes from a rate that wanders: what comes in clusters has lighter tails than
// the predictive, and what comes one by one has those that it should have.
func (s *scales) weight() float64 {
	wanders := min(1, 3*(s.spreads[s.chosen].factor()-1)) * max(0, 2-s.clusters())
	return 1 + (s.tail.weight()-1)*wanders
}

// doubt is by how much, as a logarithm, shares are less for a rate that wanders much,
// when so many errors are expected in 10 s.
func (s *scales) doubt(expected float64) float64 {
	if s.chosen == 0 {
		return 0
	}
	return math.Log1p(doubtGain * (s.spreads[s.chosen].factor() - 1) / max(expected, 1))
}

// doubtGain is how much of a rate's variance, in units of its square, makes the shares
// half as large: one in doubtGain.
const doubtGain = 10

// expect predicts the errors of some seconds when l is usual. What a rate that wanders
// adds to the spread grows with the errors that are expected: with the time, and with
// the rate.
func (s *scales) expect(l level, seconds int64) predictive {
	known, clusters, times := &s.spreads[s.chosen], s.clusters(), float64(seconds)/slots
	if known.means > 0 {
		times = float64(seconds) * l.rate() * known.expected / known.means
	}
	if seconds < slots {
		// The newest seconds are further from what is learned than a whole window.
		times *= 1 + newest*(1-float64(seconds)/slots)
	}
	return l.expect(float64(seconds), clusters+(known.factor()-clusters)*times)
}
