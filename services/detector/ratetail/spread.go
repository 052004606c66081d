package ratetail

import "math"

// spread is how much more the counts of some seconds vary than those of errors that come
// one by one: their variance per mean (Fano's factor), discounted with a
// half-life of an hour, drawn to 1 while little is known, and never under it.
//
// One count does little: what it is off by counts as spreadClip deviations at
// most, and a spike counts only where spikes come often. So a real one doesn't
// make a stream one of clusters, and a stream whose clusters are taken for spikes
// is known for it after a few of them.
type spread struct {
	squares, expected float64
	// means is the sum of the squares of what was expected, discounted like it.
	means float64
}

const (
	spreadHalfLife = 3600
	block          = slots
	// spreadPrior is how many expected errors the 1 at the beginning counts for.
	spreadPrior = 5
	// spreadFrom is the exposure from which on there is an expectation to be off
	// from, unless a level forgets sooner.
	spreadFrom = 60
	spreadClip = 4
	// spreadDoubt is how much over 1 the factor of errors that come one by one may
	// be found by chance.
	spreadDoubt = 0.1
)

func (s *spread) factor() float64 {
	return max(1, (spreadPrior+s.squares)/(spreadPrior+s.expected)-spreadDoubt)
}

// see takes in a number of blocks of some seconds with n errors each, when l was
// usual before, unless that knows less than from seconds.
func (s *spread) see(n, blocks, seconds float64, l level, from float64) {
	if l.exposure < from || blocks == 0 {
		return
	}
	p, factor := l.expect(seconds, 1), s.factor()
	s.pass(blocks * seconds)
	off := (n - p.mean) * (n - p.mean) / (1 + p.excess)
	clip := p.mean
	if seconds < block {
		clip = max(clip, 1) // else clusters that are rare are never known
	}
	s.squares += blocks * min(off, spreadClip*spreadClip*clip*factor)
	s.expected += blocks * p.mean
	s.means += blocks * p.mean * p.mean
}

// pass lets time pass.
func (s *spread) pass(seconds float64) {
	d := math.Exp2(-seconds / spreadHalfLife)
	s.squares *= d
	s.expected *= d
	s.means *= d
}
