package workload

import "math/rand/v2"

// Pages whose loads do not vary around one median. The events do not name the cause: neither
// the device nor whether the load was cached.
const (
	// Varied is the generator of such pages that never change.
	Varied = "varied"
	// Doubled is the generator of the same pages with a deploy after which every load takes
	// twice as long.
	Doubled = "doubled"

	// A doubled page has shapeBefore to shapeBefore+shapeMoreBefore loads before its deploy.
	shapeBefore, shapeMoreBefore = 60, 45
	// shapeLoads is the number of loads within which the deploy has to be found.
	shapeLoads = 5

	// Two devices take turns of turnLoads loads. The slow one takes turnSlower times as long.
	turnLoads, turnSlower = 15, 1900.0 / 1200
	// One in rareLoads loads takes rareSlower times as long.
	rareLoads, rareSlower = 15, 5
	// The drift rises by driftRise in driftLoads loads.
	driftLoads, driftRise = 400, 0.6
	// An uncached load takes halfSlower times as long.
	halfSlower = 2200.0 / 1000
	// highKept is the correlation of neighbouring loads of highly correlated pages.
	highKept = 0.9
)

// pageShape is a kind of page.
type pageShape struct {
	cell string
	cv   float64
	// kept is the correlation of neighbouring loads.
	kept float64
	// loads is how many loads an unchanged page has, or 0 for the usual number.
	loads int
	// factor returns how many times as long load number n takes.
	factor func(r *rand.Rand, n int) float64
}

func pageShapes() []pageShape {
	steady := func(*rand.Rand, int) float64 { return 1 }
	return []pageShape{
		{cell: "half from a cache, x2.2, cv 0.1", cv: 0.1, factor: func(r *rand.Rand, _ int) float64 {
			if r.IntN(2) == 0 {
				return halfSlower
			}
			return 1
		}},
		{cell: "two devices by turns of 15, x1.6, cv 0.1", cv: 0.1, factor: func(_ *rand.Rand, n int) float64 {
			if n/turnLoads%2 == 1 {
				return turnSlower
			}
			return 1
		}},
		{cell: "autocorrelated 0.9, cv 0.25", cv: 0.25, kept: highKept, factor: steady},
		{cell: "one in 15 x5, cv 0.15", cv: 0.15, factor: func(r *rand.Rand, _ int) float64 {
			if r.IntN(rareLoads) == 0 {
				return rareSlower
			}
			return 1
		}},
		{cell: "cv 0.35", cv: 0.35, factor: steady},
		{cell: "drift +60% in 400 loads, cv 0.15", cv: 0.15, loads: driftLoads, factor: func(_ *rand.Rand, n int) float64 {
			return 1 + driftRise*float64(n)/driftLoads
		}},
		{cell: "cv 0.15", cv: 0.15, factor: steady},
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
					p.load(s.factor(r, first+n))
				}
				return p.done()
			}},
			Workload{Generator: Doubled, Cell: s.cell, Kind: Loads, Runs: size.Pages, make: func(r *rand.Rand) Run {
				p, n := s.page(r)
				before := shapeBefore + r.IntN(shapeMoreBefore)
				if r.IntN(2) == 0 {
					// The hardest moment for a page with turns: the turn of the fast device begins
					// with the deploy.
					n = 4*2*turnLoads - before
				}
				for range before {
					p.load(s.factor(r, n))
					n++
				}
				e := Episode{Kind: Deploy}
				for i := range afterDeploy {
					at := p.load(2 * s.factor(r, n))
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

// page returns a page of the shape, and the number of its first load, which is random: a turn
// may have begun before.
func (s *pageShape) page(r *rand.Rand) (p *page, first int) {
	p = newPage(r, s.cv)
	p.kept = s.kept
	return p, r.IntN(2 * turnLoads)
}
