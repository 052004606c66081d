package workload

import "math/rand/v2"

// Pages of which the loads do not all lie around one median. The events do not name
// the cause: neither the device nor whether the load came from a cache.
const (
	// Varied is the generator of such pages that never change.
	Varied = "varied"
	// Doubled is the generator of the same pages with a deploy that makes every load take
	// twice as long.
	Doubled = "doubled"

	// shapeDeploy is a load from which on a doubled page is slow at the earliest, and
	// moreShape how many further ones there can be before it.
	shapeDeploy, moreShape = 60, 45
	// shapeLoads is within how many loads a doubled page is to be found.
	shapeLoads = 5

	// Turns of loads on two devices, and how many times as long the slow one takes.
	turnLoads, turnSlower = 15, 1900.0 / 1200
	// rareLoads is in how many loads one is rareSlower times as slow.
	rareLoads, rareSlower = 15, 5
	// A drift of driftRise in driftLoads.
	driftLoads, driftRise = 400, 0.6
	// halfSlower is how many times as long a load takes that finds nothing in the cache.
	halfSlower = 2200.0 / 1000
	// highly is how much of its deviation a load passes on where loads are highly
	// correlated.
	highly = 0.9
)

// pageShape is a kind of page.
type pageShape struct {
	cell string
	cv   float64
	// kept is how much of its deviation a load passes on.
	kept float64
	// loads is how many loads an unchanged page has, or 0 for the usual number.
	loads int
	// times returns how many times as long load number n takes.
	times func(r *rand.Rand, n int) float64
}

func pageShapes() []pageShape {
	steady := func(*rand.Rand, int) float64 { return 1 }
	return []pageShape{
		{cell: "half from a cache, x2.2, cv 0.1", cv: 0.1, times: func(r *rand.Rand, _ int) float64 {
			if r.IntN(2) == 0 {
				return halfSlower
			}
			return 1
		}},
		{cell: "two devices by turns of 15, x1.6, cv 0.1", cv: 0.1, times: func(_ *rand.Rand, n int) float64 {
			if n/turnLoads%2 == 1 {
				return turnSlower
			}
			return 1
		}},
		{cell: "autocorrelated 0.9, cv 0.25", cv: 0.25, kept: highly, times: steady},
		{cell: "one in 15 x5, cv 0.15", cv: 0.15, times: func(r *rand.Rand, _ int) float64 {
			if r.IntN(rareLoads) == 0 {
				return rareSlower
			}
			return 1
		}},
		{cell: "cv 0.35", cv: 0.35, times: steady},
		{cell: "drift +60% in 400 loads, cv 0.15", cv: 0.15, loads: driftLoads, times: func(_ *rand.Rand, n int) float64 {
			return 1 + driftRise*float64(n)/driftLoads
		}},
		{cell: "cv 0.15", cv: 0.15, times: steady},
	}
}

// pageShapeWorkloads are pages of each shape, unchanged and doubled.
func pageShapeWorkloads(size Size) []Workload {
	var all []Workload
	for _, s := range pageShapes() {
		all = append(all,
			Workload{Generator: Varied, Cell: s.cell, Kind: Loads, Runs: size.Pages, make: func(r *rand.Rand) Run {
				p, first := s.page(r)
				loads := s.loads
				if loads == 0 {
					loads = unchangedLoads
				}
				for n := range loads {
					p.load(s.times(r, first+n))
				}
				return p.done()
			}},
			Workload{Generator: Doubled, Cell: s.cell, Kind: Loads, Runs: size.Pages, make: func(r *rand.Rand) Run {
				p, n := s.page(r)
				before := shapeDeploy + r.IntN(moreShape)
				if r.IntN(2) == 0 {
					// The hardest moment of a page with turns: those of the fast device begin, and
					// the loads before were on the slow one.
					n = 4*2*turnLoads - before
				}
				for range before {
					p.load(s.times(r, n))
					n++
				}
				e := Episode{Kind: Deploy}
				for i := range afterDeploy {
					at := p.load(2 * s.times(r, n))
					n++
					switch i + 1 {
					case 1:
						e.Start = at
					case shapeLoads:
						e.End = at
					case lateLoads:
						e.Grace = at - e.End
					}
				}
				p.run.Episodes = []Episode{e}
				return p.done()
			}})
	}
	return all
}

// page returns a page of the shape, and the number of its first load: turns begin
// anywhere.
func (s *pageShape) page(r *rand.Rand) (p *page, first int) {
	p = newPage(r, s.cv)
	p.kept = s.kept
	return p, r.IntN(2 * turnLoads)
}
