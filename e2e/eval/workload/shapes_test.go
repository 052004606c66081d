package workload_test

import (
	"math"
	"testing"
	"time"
)

// TestShapes checks the rates of errors in and outside of episodes.
func TestShapes(t *testing.T) {
	for _, tt := range []struct {
		name string
		// rate is the rate outside of episodes, times the factor in an episode.
		rate, times, dispersion float64
		length                  time.Duration
	}{
		{"outages 30/s for 10 min each 2.5 h", 0.02, 1501, 1, 10 * time.Minute},
		{"restarts 6 of 8 errors, each 2 to 5 h", 0.05 + 48/(3.5*3600), 0, 48, 0},
		{"wander 1/s, sd 0.5 in 300 s", 1, 0, 1 + 2*300*0.35, 0},
		{"wander+rises 1/s, sd 0.5 in 30 s", 1, 4, 1 + 2*30*0.35, time.Minute},
		{"wander+rises 5/s, sd 0.3 in 60 s", 5, 4, 1 + 2*60*5*0.12, time.Minute},
		{"rises 10/s, 2 times for 30 s", 10, 2, 1, 30 * time.Second},
		{"rises 50/s, 1.5 times for 60 s", 50, 1.5, 1, time.Minute},
		{"retries 5 times, 1 to 8 s apart", 0.25, 0, 5, 0},
	} {
		within, episodes, inside, n, seconds := 0, 0, 0.0, 0, 0.0
		for _, r := range runs(named(t, tt.name)) {
			n += len(r.Arrivals)
			seconds += r.Length.Seconds()
			for _, e := range r.Episodes {
				within += during(&r, e.Start, e.Start+tt.length)
				inside += tt.length.Seconds()
				episodes++
			}
		}
		if !near(n-within, tt.rate*(seconds-inside), tt.dispersion) {
			t.Errorf("%s: got %d errors in %.0f s outside of episodes, want %g/s", tt.name, n-within, seconds-inside, tt.rate)
		}
		if (episodes > 0) != (tt.times > 0) || !near(within, tt.rate*tt.times*inside, tt.dispersion) {
			t.Errorf("%s: got %d errors in %d episodes of %v, want %g times %g/s", tt.name, within, episodes, tt.length, tt.times, tt.rate)
		}
	}
}

// TestWander checks the variance of the rate of minutes, and its covariance with the next
// minute, which is high only for a long time constant.
func TestWander(t *testing.T) {
	for _, tt := range []struct {
		name     string
		constant float64
	}{{"wander 1/s, sd 0.5 in 300 s", 300}, {"wander 1/s, sd 0.5 in 30 s", 30}} {
		var rates []float64
		for _, r := range runs(named(t, tt.name)) {
			counts := make([]float64, r.Length/time.Minute)
			for _, a := range r.Arrivals {
				if i := int(a.At / time.Minute); i < len(counts) {
					counts[i]++
				}
			}
			rates = append(rates, counts...)
		}
		mean, deviation := moments(rates)
		together := 0.0
		for i := range rates[1:] {
			together += (rates[i] - mean) * (rates[i+1] - mean) / float64(len(rates)-1)
		}
		// The rate is log-normal; its variance and covariance over whole minutes.
		u := 60 / tt.constant
		spread := math.Exp(0.25) - 1
		usual := 60 * math.Exp(0.125)
		variance := usual + usual*usual*spread*2/u*(1-(1-math.Exp(-u))/u)
		covariance := usual * usual * spread * math.Pow((1-math.Exp(-u))/u, 2)
		if deviation*deviation < 0.6*variance || deviation*deviation > 1.4*variance || together < covariance-0.2*variance || together > covariance+0.2*variance {
			t.Errorf("%s: got variance %.0f and covariance %.0f of minutes, want %.0f and %.0f", tt.name, deviation*deviation, together, variance, covariance)
		}
	}
}

// TestOfficeHours checks that errors occur at one of two rates, except for the half hours in
// which the rate changes.
func TestOfficeHours(t *testing.T) {
	const block = 30 * time.Minute
	for i, r := range runs(named(t, "office hours 0.3/s, nights 0.005/s")) {
		between := 0
		for at := time.Duration(0); at+block <= r.Length; at += block {
			if n := during(&r, at, at+block); !near(n, 0.3*block.Seconds(), 1) && !near(n, 0.005*block.Seconds(), 1) {
				between++
			}
		}
		if between > 2 {
			t.Errorf("run %d: got %d half hours at another rate, want at most 2", i, between)
		}
	}
}
