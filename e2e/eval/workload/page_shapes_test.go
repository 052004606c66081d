package workload_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
)

// TestPageShapes checks how often loads are slow, how long turns last and how much loads
// resemble the one before them.
func TestPageShapes(t *testing.T) {
	for _, tt := range []struct {
		cell string
		// slow is the share of loads over 1.4 times the fast median; kept the correlation
		// of neighbours.
		slow, kept float64
	}{
		{"half from a cache, x2.2, cv 0.1", 0.5, 0},
		{"two devices by turns of 15, x1.6, cv 0.1", 0.45, 0.73},
		{"autocorrelated 0.9, cv 0.25", 0.08, 0.9},
		{"one in 15 x5, cv 0.15", 1.0/15 + 0.01, 0},
		{"cv 0.35", 0.16, 0},
		{"cv 0.15", 0.01, 0},
	} {
		slow, n, products, squares := 0.0, 0.0, 0.0, 0.0
		for _, r := range runs(named(t, workload.Varied+" "+tt.cell)) {
			var logs []float64
			for _, v := range values(&r, 0, r.Length+1) {
				logs = append(logs, math.Log(v))
			}
			fast := fastMedian(tt.slow, logs)
			mean := 0.0
			for _, v := range logs {
				mean += v / float64(len(logs))
				n++
				if v > fast+math.Log(1.4) {
					slow++
				}
			}
			for i := 1; i < len(logs); i++ {
				products += (logs[i] - mean) * (logs[i-1] - mean)
				squares += (logs[i] - mean) * (logs[i] - mean)
			}
		}
		if got := slow / n; math.Abs(got-tt.slow) > 0.05 {
			t.Errorf("%s: %.3f of the loads are slow, want %.3f", tt.cell, got, tt.slow)
		}
		if got := products / squares; math.Abs(got-tt.kept) > 0.06 {
			t.Errorf("%s: neighbours correlate by %.3f, want %.3f", tt.cell, got, tt.kept)
		}
	}
}

// fastMedian returns the median of the fast loads. Their share is 1 - slow.
func fastMedian(slow float64, logs []float64) float64 {
	if slow < 0.4 {
		return median(logs)
	}
	sorted := sortedCopy(logs)
	return sorted[len(sorted)/4]
}

// TestDoubled checks that a page is twice as slow after its deploy, and that the deploy has to
// be found within 5 loads.
func TestDoubled(t *testing.T) {
	r := named(t, workload.Doubled+" cv 0.15").Run(workload.Tuning, 0)
	e := r.Episodes[0]
	before, after := values(&r, 0, e.Start), values(&r, e.Start, r.Length+1)
	if ratio := median(after) / median(before); math.Abs(ratio-2) > 0.2 {
		t.Errorf("%.2f times as slow, want 2", ratio)
	}
	if n := during(&r, e.Start, e.End+time.Millisecond); n != 5 {
		t.Errorf("it is found in time within %d loads, want 5", n)
	}
	if len(before) < 60 || len(before) > 105 {
		t.Errorf("%d loads before, want 60 to 105", len(before))
	}
}

func sortedCopy(values []float64) []float64 { return slices.Sorted(slices.Values(values)) }
