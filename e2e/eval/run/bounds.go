package run

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
)

// Bound is the best possible result for bursts on top of one usual rate, in errors a
// second: that of a detector that knows both rates and has nothing to learn.
//
// It is the CUSUM of the log-likelihood ratio of two Poisson rates. No detector with as
// few false alarms has a shorter mean delay in the worst case (El Karoui, Loisel and
// Salhi, "Minimax optimality in robust detection of a disorder time in doubly-stochastic
// Poisson processes", Annals of Applied Probability 27, 2017; they count delays in
// errors). Its threshold is set to one false alarm a day. The proof is about means: a
// percentile may be a little better elsewhere, but not for a detector that has to learn
// the usual rate.
type Bound struct {
	Rate             float64
	Recall, P50, P95 score.Estimate
}

// boundBursts is the number of simulated bursts for each bound.
const boundBursts = 2000

// Bounds returns the bounds of the workloads of bursts.
func Bounds(seeds workload.Seeds) []Bound {
	var bounds []Bound
	for i, rate := range workload.BurstRates() {
		b := burst{rate: rate, errors: workload.BurstErrors, length: 10 * time.Second, inTime: 20 * time.Second}
		delays, missed := b.delays(rand.New(rand.NewPCG(uint64(seeds), uint64(i))), boundBursts)
		s := score.Summarise("bound", []score.Tally{{Episodes: len(delays) + missed, Found: len(delays), Delays: delays}})
		bounds = append(bounds, Bound{Rate: rate, Recall: s.Recall, P50: s.P50, P95: s.P95})
	}
	return bounds
}

// burst is a number of errors spread uniformly over a length, on top of a usual rate in
// errors a second. An alert after inTime is too late.
type burst struct {
	rate           float64
	errors         int
	length, inTime time.Duration
}

// delays simulates n bursts. It returns how long after its beginning each was found, in
// seconds and sorted, and how many were not found in time.
func (b burst) delays(r *rand.Rand, n int) (delays []float64, missed int) {
	c := cusum{rate: b.rate, burst: b.rate + float64(b.errors)/b.length.Seconds()}
	threshold := c.threshold(r)
	for range n {
		if delay, found := b.delay(r, c, threshold); found {
			delays = append(delays, delay)
		} else {
			missed++
		}
	}
	slices.Sort(delays)
	return delays, missed
}

// delay simulates one burst after 300 s of the usual rate, which is long enough that the
// initial sum does not matter.
func (b burst) delay(r *rand.Rand, c cusum, threshold float64) (delay float64, found bool) {
	const before = 300
	end := before + b.inTime.Seconds()
	var times []float64
	for t := r.ExpFloat64() / b.rate; t < end; t += r.ExpFloat64() / b.rate {
		times = append(times, t)
	}
	for range b.errors {
		times = append(times, before+r.Float64()*b.length.Seconds())
	}
	slices.Sort(times)
	last := 0.0
	for _, t := range times {
		c.add(t - last)
		last = t
		if c.sum >= threshold && t >= before {
			return t - before, true
		}
	}
	return 0, false
}

// cusum is a cumulative sum that never falls below 0.
type cusum struct {
	rate, burst float64
	sum         float64
}

// add adds an error that occurs gap seconds after the previous one. Between errors the
// sum only falls, so it crosses a threshold only at an error.
func (c *cusum) add(gap float64) {
	c.sum = max(0, c.sum-gap*(c.burst-c.rate)) + math.Log(c.burst/c.rate)
}

// threshold returns the sum that the usual rate reaches once a day. It simulates 60 days
// and takes the maximum between each two returns to 0.
func (c cusum) threshold(r *rand.Rand) float64 {
	const days = 60
	var maxima []float64
	highest := 0.0
	for t := 0.0; t < days*86400; {
		gap := r.ExpFloat64() / c.rate
		t += gap
		if c.sum-gap*(c.burst-c.rate) <= 0 && highest > 0 {
			maxima = append(maxima, highest)
			highest = 0
		}
		c.add(gap)
		highest = max(highest, c.sum)
	}
	slices.Sort(maxima)
	// Many maxima are equal, because the sum grows in equal steps. The next value above is
	// reached at most once a day.
	i := max(0, len(maxima)-days)
	return math.Nextafter(maxima[i], math.Inf(1))
}
