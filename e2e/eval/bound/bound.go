// Package bound computes how well bursts of errors can be found at all: by a detector that
// is given the usual rate and that of the burst, and has nothing to learn.
//
// It is the CUSUM of the log-likelihood ratio of two Poisson rates. No detector with as few
// false alarms has a shorter mean delay in the worst case (El Karoui, Loisel and Salhi,
// "Minimax optimality in robust detection of a disorder time in doubly-stochastic Poisson
// processes", Annals of Applied Probability 27, 2017; they count delays in errors). Its
// threshold is set to one false alarm a day. This is about means: a percentile may be a
// little better elsewhere, but not for a detector that has to learn what is usual.
package bound

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Burst is a burst to be found: so many errors spread uniformly over a length, on top of a
// usual rate in errors a second. An alert after InTime is too late.
type Burst struct {
	Rate           float64
	Errors         int
	Length, InTime time.Duration
}

// Delays returns how long after its beginning each of so many bursts is found, in seconds
// and sorted, and how many are not found in time, with one false alarm a day. It draws from
// r.
func (b Burst) Delays(r *rand.Rand, bursts int) (delays []float64, missed int) {
	c := cusum{rate: b.Rate, burst: b.Rate + float64(b.Errors)/b.Length.Seconds()}
	threshold := c.threshold(r)
	for range bursts {
		if at, found := b.delay(r, c, threshold); found {
			delays = append(delays, at)
		} else {
			missed++
		}
	}
	slices.Sort(delays)
	return delays, missed
}

// delay returns that of one burst, after enough of the usual rate that it does not matter
// where the sum began.
func (b Burst) delay(r *rand.Rand, c cusum, threshold float64) (float64, bool) {
	const before = 300
	end := before + b.InTime.Seconds()
	var at []float64
	for t := r.ExpFloat64() / b.Rate; t < end; t += r.ExpFloat64() / b.Rate {
		at = append(at, t)
	}
	for range b.Errors {
		at = append(at, before+r.Float64()*b.Length.Seconds())
	}
	slices.Sort(at)
	last := 0.0
	for _, t := range at {
		c.take(t - last)
		last = t
		if c.sum >= threshold && t >= before {
			return t - before, true
		}
	}
	return 0, false
}

// cusum is the sum, which never falls below 0.
type cusum struct {
	rate, burst float64
	sum         float64
}

// take adds an error that comes so many seconds after the one before it. Between
// errors the sum only falls, so that it is over a threshold first at one.
func (c *cusum) take(gap float64) {
	c.sum = max(0, c.sum-gap*(c.burst-c.rate)) + math.Log(c.burst/c.rate)
}

// threshold returns what the sum reaches once a day at the usual rate: from many days, the
// heights that it reached between two returns to 0.
func (c cusum) threshold(r *rand.Rand) float64 {
	const days = 60
	var heights []float64
	highest := 0.0
	for t := 0.0; t < days*86400; {
		gap := r.ExpFloat64() / c.rate
		t += gap
		if c.sum-gap*(c.burst-c.rate) <= 0 && highest > 0 {
			heights = append(heights, highest)
			highest = 0
		}
		c.take(gap)
		highest = max(highest, c.sum)
	}
	slices.Sort(heights)
	// Heights are multiples of few steps, so that many are equal: it takes one that
	// is reached no more often than that.
	i := max(0, len(heights)-days)
	return math.Nextafter(heights[i], math.Inf(1))
}
