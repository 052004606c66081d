package run

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCUSUM checks that an error adds the logarithm of the ratio of the rates, that a
// second subtracts their difference, and that the sum does not fall below 0.
func TestCUSUM(t *testing.T) {
	c := cusum{rate: 1, burst: math.E}
	for _, step := range []struct{ gap, want float64 }{{0, 1}, {0, 2}, {1 / (math.E - 1), 2}, {0.5 / (math.E - 1), 2.5}, {100, 1}} {
		if c.add(step.gap); math.Abs(c.sum-step.want) > 1e-12 {
			t.Errorf("sum after %v s = %v, want %v", step.gap, c.sum, step.want)
		}
	}
}

// TestThreshold checks that on other days than those it was computed from, the sum
// crosses the threshold about once a day.
func TestThreshold(t *testing.T) {
	for _, rate := range []float64{0.1, 0.3} {
		c := cusum{rate: rate, burst: rate + 3}
		threshold := c.threshold(rand.New(rand.NewPCG(1, 2)))
		r, alarms := rand.New(rand.NewPCG(3, 4)), 0
		const days = 60
		for at := 0.0; at < days*86400; {
			gap := r.ExpFloat64() / rate
			at += gap
			if c.add(gap); c.sum >= threshold {
				alarms++
				c.sum = 0
			}
		}
		if alarms > days*3/2 || alarms < days/10 {
			t.Errorf("at %g/s got %d false alarms in %d days, want %d to %d", rate, alarms, days, days/10, days*3/2)
		}
	}
}

// TestDelays checks that a burst is found sooner at a lower usual rate, within about
// ln(day)/information on average, and that equal draws give equal delays.
func TestDelays(t *testing.T) {
	last := 0.0
	for _, rate := range []float64{0.1, 0.5} {
		b := burst{rate: rate, errors: 30, length: 10 * time.Second, inTime: 20 * time.Second}
		delays, missed := b.delays(rand.New(rand.NewPCG(1, 2)), 500)
		again, _ := b.delays(rand.New(rand.NewPCG(1, 2)), 500)
		if diff := cmp.Diff(delays, again); diff != "" {
			t.Errorf("%g/s: delays of the same draws (-first +second):\n%s", rate, diff)
		}
		if len(delays)+missed != 500 {
			t.Errorf("%g/s: %d found and %d missed, want 500 together", rate, len(delays), missed)
		}
		median := delays[len(delays)/2]
		burst := rate + 3
		information := burst*math.Log(burst/rate) - 3
		if want := math.Log(86400) / information; median <= last || median < want/3 || median > 1.5*want {
			t.Errorf("%g/s: median = %v, want about %v, and more than the %v of the lower rate", rate, median, want, last)
		}
		last = median
	}
}
