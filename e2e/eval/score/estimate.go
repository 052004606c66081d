package score

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
)

// Estimate is a value with its 95% interval. N is the number of episodes, findings, hours or
// loads that it was counted over; if N is 0, there is no value.
type Estimate struct {
	Value, Low, High float64
	N                float64
}

// Known reports whether there was anything to count.
func (e Estimate) Known() bool { return e.N > 0 }

// Summary holds the values measured in one cell.
type Summary struct {
	Total Tally
	// Recall is the share of the episodes that were found in time, Precision the share of
	// the findings that were opened in an episode.
	Recall, Precision Estimate
	// PerDay is the number of false findings of an app in a day, Per100 the number in 100
	// unchanged loads.
	PerDay, Per100 Estimate
	// P50 and P95 are percentiles of the delays of the episodes found.
	P50, P95 Estimate
}

// draws is the number of bootstrap samples for an interval.
const draws = 1000

// Summarise returns the values of the blocks of a cell. The intervals are those of the
// percentile bootstrap: blocks are drawn with replacement, with a seed that follows from
// the name. The bootstrap cannot bound counts of nothing or of everything: there the
// interval is the exact one of independent counts.
func Summarise(name string, blocks []Tally) Summary {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	r := rand.New(rand.NewPCG(h.Sum64(), 1))

	var s Summary
	for i := range blocks {
		s.Total.Add(&blocks[i])
	}
	samples := make([][]float64, len(figures))
	for range draws {
		var drawn Tally
		for range blocks {
			drawn.Add(&blocks[r.IntN(len(blocks))])
		}
		slices.Sort(drawn.Delays)
		for i, f := range figures {
			if value, n := f.value(&drawn); n > 0 {
				samples[i] = append(samples[i], value)
			}
		}
	}
	slices.Sort(s.Total.Delays)
	for i, f := range figures {
		e := f.field(&s)
		e.Value, e.N = f.value(&s.Total)
		if e.N == 0 {
			continue
		}
		e.Low, e.High = interval(samples[i])
		if f.bound != nil {
			f.bound(e)
		}
	}
	return s
}

// figures lists the fields of a summary. value computes one from a sum of blocks with
// sorted delays. bound sets the exact interval, where there is one.
var figures = []struct {
	field func(*Summary) *Estimate
	value func(*Tally) (value, n float64)
	bound func(*Estimate)
}{
	{func(s *Summary) *Estimate { return &s.Recall }, func(t *Tally) (float64, float64) { return ratio(t.Found, t.Episodes) }, share},
	{func(s *Summary) *Estimate { return &s.Precision }, func(t *Tally) (float64, float64) { return ratio(t.Right, t.Right+t.False) }, share},
	{func(s *Summary) *Estimate { return &s.PerDay }, func(t *Tally) (float64, float64) {
		return per(24*float64(t.False), t.Hours)
	}, rate(24)},
	{func(s *Summary) *Estimate { return &s.Per100 }, func(t *Tally) (float64, float64) {
		return per(100*float64(t.False), float64(t.Loads))
	}, rate(100)},
	{func(s *Summary) *Estimate { return &s.P50 }, func(t *Tally) (float64, float64) { return percentile(t.Delays, 0.5) }, nil},
	{func(s *Summary) *Estimate { return &s.P95 }, func(t *Tally) (float64, float64) { return percentile(t.Delays, 0.95) }, nil},
}

func ratio(n, of int) (value, total float64) { return per(float64(n), float64(of)) }

func per(n, of float64) (value, total float64) {
	if of == 0 {
		return 0, 0
	}
	return n / of, of
}

// percentile returns the smallest of sorted values such that a share p of them is not
// greater.
func percentile(sorted []float64, p float64) (value, n float64) {
	if len(sorted) == 0 {
		return 0, 0
	}
	i := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[max(i, 0)], float64(len(sorted))
}

// interval returns the middle 95% of samples, which it sorts.
func interval(samples []float64) (low, high float64) {
	slices.SortFunc(samples, cmp.Compare)
	low, _ = percentile(samples, 0.025)
	high, _ = percentile(samples, 0.975)
	return low, high
}

// share sets the interval of n independent trials if none or all of them succeeded, by
// Clopper and Pearson.
func share(e *Estimate) {
	switch e.Value {
	case 0:
		e.High = 1 - math.Pow(0.025, 1/e.N)
	case 1:
		e.Low = math.Pow(0.025, 1/e.N)
	}
}

// rate returns a function that sets the interval of a rate if nothing was counted: the exact
// interval of a Poisson count, per unit of the exposure.
func rate(unit float64) func(*Estimate) {
	return func(e *Estimate) {
		if e.Value == 0 {
			e.High = -math.Log(0.025) * unit / e.N
		}
	}
}
