package changepoint_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/changepoint"
)

// times is the scale of page loads in microseconds: worse from 20% and 50 ms on.
var times = changepoint.Scale{Factors: true, Percent: 20, Least: 2 * 50_000, Calm: 5}

// shifts is the scale of CLS in steps of 0.0001: worse over 0.1.
var shifts = changepoint.Scale{Least: 2*1000 + 1, Calm: 2 * 200}

// page draws loads of a lognormal page with a median of 1 s.
type page struct {
	*rand.Rand
	sigma float64
}

func newPage(seed uint64, cv float64) page {
	return page{rand.New(rand.NewPCG(6, seed)), math.Sqrt(math.Log1p(cv * cv))}
}

func (p page) load(factor float64) int64 {
	return int64(math.Round(1e6 * factor * math.Exp(p.sigma*p.NormFloat64())))
}

// tally counts loads and their verdicts.
type tally struct {
	loads                int
	first                [4]int // findings, by the confidence that they began with
	raised               [4]int // rises of a confidence, by the new one
	withdrawn, recovered int
	settled, improved    int
}

func (t *tally) take(v changepoint.Verdict) {
	t.loads++
	switch v.Transition {
	case changepoint.NoChange:
	case changepoint.Risen:
		if v.Began {
			t.first[v.Confidence]++
		} else {
			t.raised[v.Confidence]++
		}
	case changepoint.Withdrawn:
		t.withdrawn++
	case changepoint.Recovered:
		t.recovered++
	case changepoint.Settled:
		t.settled++
	case changepoint.Improved:
		t.improved++
	}
}

func (t *tally) per100(n ...int) float64 {
	sum := 0
	for _, i := range n {
		sum += i
	}
	return 100 * float64(sum) / float64(t.loads)
}

func (t *tally) found() float64 { return t.per100(t.first[1:]...) }

func (t *tally) String() string {
	return fmt.Sprintf("%.2f in 100 (single %.3f, probable %.3f, confirmed %.3f; raised: probable %.3f, confirmed %.3f; settled %.3f, improved %.3f)", t.found(),
		t.per100(t.first[changepoint.Single]), t.per100(t.first[changepoint.Probable]), t.per100(t.first[changepoint.Confirmed]),
		t.per100(t.raised[changepoint.Probable]), t.per100(t.raised[changepoint.Confirmed]), t.per100(t.settled), t.per100(t.improved))
}

const pages = 400

// TestFalseAlarms bounds how often something is found if nothing changed, and if one load in
// 50 takes three times as long. The generator is seeded, so the counts are the same each
// time.
func TestFalseAlarms(t *testing.T) {
	for _, tt := range []struct {
		cv                        float64 // coefficient of variation
		unchanged, cold, outliers float64 // at most so many findings in 100 loads; cold: in the first 30
	}{{0.1, 0.05, 0.05, 0.5}, {0.15, 0.25, 0.3, 0.7}, {0.25, 0.45, 0.45, 0.8}, {0.4, 0.6, 0.45, 0.8}} {
		t.Run(fmt.Sprintf("cv %g", tt.cv), func(t *testing.T) {
			var unchanged, cold, outliers tally
			far := 0
			for i := range uint64(pages) {
				var s, o changepoint.Series
				p, q := newPage(i, tt.cv), newPage(pages+i, tt.cv)
				for n := range 300 {
					v := s.Add(&times, p.load(1), changepoint.DefaultSettling)
					unchanged.take(v)
					if n < 30 {
						cold.take(v)
					}
					factor := 1.0
					if q.IntN(50) == 0 {
						factor, far = 3, far+1
					}
					outliers.take(o.Add(&times, q.load(factor), changepoint.DefaultSettling))
				}
			}
			alone := outliers.first[changepoint.Single]
			t.Logf("unchanged: %v", &unchanged)
			t.Logf("first 30:  %v", &cold)
			t.Logf("outliers:  %v; %d of %d were a single", &outliers, alone, far)
			if unchanged.found() > tt.unchanged || cold.found() > tt.cold || outliers.found() > tt.outliers {
				t.Errorf("found unchanged %.2f, cold %.2f, with outliers %.2f, want at most %.2f, %.2f, %.2f",
					unchanged.found(), cold.found(), outliers.found(), tt.unchanged, tt.cold, tt.outliers)
			}
		})
	}
}

// TestRecall bounds how often a page that became slower is found within 10 loads.
func TestRecall(t *testing.T) {
	for _, tt := range []struct {
		cv    float64
		least [5]float64 // at 10, 20, 30, 50 and 100% slower
	}{
		{0.1, [5]float64{0.1, 0.65, 0.95, 0.99, 0.99}},
		{0.15, [5]float64{0.15, 0.55, 0.87, 0.99, 0.99}},
		{0.25, [5]float64{0.1, 0.3, 0.55, 0.85, 0.98}},
		{0.4, [5]float64{0.07, 0.15, 0.3, 0.55, 0.92}},
	} {
		for i, factor := range []float64{1.1, 1.2, 1.3, 1.5, 2} {
			t.Run(fmt.Sprintf("cv %g, %g times as long", tt.cv, factor), func(t *testing.T) {
				var delays, sure []int
				settled := 0
				for seed := range uint64(pages * 2) {
					var s changepoint.Series
					p := newPage(10*pages+seed, tt.cv)
					for range 40 {
						s.Add(&times, p.load(1), changepoint.DefaultSettling)
					}
					first, second := 0, 0
					for n := 1; n <= 30; n++ {
						v := s.Add(&times, p.load(factor), changepoint.DefaultSettling)
						if v.Transition == changepoint.Risen && first == 0 {
							first = n
						}
						if v.Transition == changepoint.Risen && v.Confidence == changepoint.Confirmed && second == 0 {
							second = n
						}
						if v.Transition == changepoint.Settled {
							settled++
						}
					}
					if first > 0 && first <= 10 {
						delays = append(delays, first)
					}
					if second > 0 && second <= 10 {
						sure = append(sure, second)
					}
				}
				slices.Sort(delays)
				total := float64(2 * pages)
				recall := float64(len(delays)) / total
				t.Logf("found %.3f, confirmed %.3f, after %d loads (half) and %d (95%%); settled %.2f", recall, float64(len(sure))/total,
					delays[len(delays)/2], delays[len(delays)*95/100], float64(settled)/total)
				if recall < tt.least[i] {
					t.Errorf("%.3f were found within 10 loads, want at least %v", recall, tt.least[i])
				}
			})
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, cv := range []float64{0.1, 0.4} {
		b.Run(fmt.Sprintf("cv %g", cv), func(b *testing.B) {
			p := newPage(1, cv)
			loads := make([]int64, 1<<12)
			for i := range loads {
				loads[i] = p.load(1)
			}
			var s changepoint.Series
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.Add(&times, loads[i%len(loads)], changepoint.DefaultSettling)
				i++
			}
		})
	}
}
