package ratetail

import "math"

// spread is how much more the counts of some seconds vary than those of errors that come
// one by one: their variance per mean (Fano factor), discounted with a half-life of an
// hour, close to 1 while little is known, and never under it.
//
// A single count does little: its difference counts as spreadClip deviations at most, and a
// spike counts only where spikes come often. So a real spike does not make a stream look
// clustered, and a stream whose clusters are found as spikes is recognized after a few of
// them.
type spread struct {
	squares, expected float64
	// means is the sum of the squares of the expected counts, discounted as well.
	means float64
}

const (
	spreadHalfLife = 3600
	block          = slots
	// spreadPrior is how many expected errors the initial 1 counts for.
	spreadPrior = 5
	// spreadFrom is the exposure from which on counts are compared with an expectation,
	// unless a level forgets sooner.
	spreadFrom = 60
	spreadClip = 4
	// spreadDoubt is how far over 1 the factor of errors that come one by one may be by
	// chance.
	spreadDoubt = 0.1
)

func (s *spread) factor() float64 {
	return max(1, (spreadPrior+s.squares)/(spreadPrior+s.expected)-spreadDoubt)
}

// addBlocks adds a number of blocks of some seconds with n errors each and the usual level
// before them, unless that has less exposure than from.
func (s *spread) addBlocks(n, blocks, seconds float64, l level, from float64) {
	if l.exposure < from || blocks == 0 {
		return
	}
	p, factor := l.expect(seconds, 1), s.factor()
	s.pass(blocks * seconds)
	off := (n - p.mean) * (n - p.mean) / (1 + p.excess)
	clip := p.mean
	if seconds < block {
		clip = max(clip, 1) // otherwise rare clusters would never be learned
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
