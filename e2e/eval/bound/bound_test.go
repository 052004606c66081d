package bound

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// TestTake: an error adds the logarithm of the ratio of the rates, a second takes
// their difference away, and nothing is below 0.
func TestTake(t *testing.T) {
	c := cusum{rate: 1, burst: math.E}
	for _, step := range []struct{ gap, want float64 }{{0, 1}, {0, 2}, {1 / (math.E - 1), 2}, {0.5 / (math.E - 1), 2.5}, {100, 1}} {
		if c.take(step.gap); math.Abs(c.sum-step.want) > 1e-12 {
			t.Errorf("after %v s %v, want %v", step.gap, c.sum, step.want)
		}
	}
}

// TestThreshold: over other days than those it was taken from, the sum crosses the
// threshold about once a day.
func TestThreshold(t *testing.T) {
	for _, rate := range []float64{0.1, 0.3} {
		c := cusum{rate: rate, burst: rate + 3}
		threshold := c.threshold(rand.New(rand.NewPCG(1, 2)))
		r, alarms := rand.New(rand.NewPCG(3, 4)), 0
		const days = 60
		for at := 0.0; at < days*86400; {
			gap := r.ExpFloat64() / rate
			at += gap
			if c.take(gap); c.sum >= threshold {
				alarms++
				c.sum = 0
			}
		}
		if alarms > days*3/2 || alarms < days/10 {
			t.Errorf("at %g/s %d false alarms in %d days", rate, alarms, days)
		}
	}
}

// TestDelays: a burst is reported the sooner the less is usual, within about
// ln(day)/information on average, and the same draws give the same.
func TestDelays(t *testing.T) {
	last := 0.0
	for _, rate := range []float64{0.1, 0.5} {
		b := Burst{Rate: rate, Errors: 30, Length: 10 * time.Second, InTime: 20 * time.Second}
		delays, missed := b.Delays(rand.New(rand.NewPCG(1, 2)), 500)
		again, _ := b.Delays(rand.New(rand.NewPCG(1, 2)), 500)
		if !reflect.DeepEqual(delays, again) || len(delays)+missed != 500 {
			t.Errorf("%g/s: %d found, %d missed, then %d found", rate, len(delays), missed, len(again))
		}
		median := delays[len(delays)/2]
		burst := rate + 3
		information := burst*math.Log(burst/rate) - 3
		if want := math.Log(86400) / information; median <= last || median < want/3 || median > 1.5*want {
			t.Errorf("%g/s: median %v after one of %v, about %v expected", rate, median, last, want)
		}
		last = median
	}
}
