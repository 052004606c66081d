package harness_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

func TestQuantiles(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)*time.Millisecond)
	}
	for _, c := range []struct {
		all  []time.Duration
		want string
	}{
		{nil, "nothing was measured"},
		{[]time.Duration{1234567 * time.Nanosecond}, "p50 1.23ms, p99 1.23ms (n=1)"},
		{hundred, "p50 51ms, p99 100ms (n=100)"},
	} {
		if got := harness.Quantiles(c.all); got != c.want {
			t.Errorf("Quantiles(%v) = %q, want %q", c.all, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	all := []float64{5, 1, 4}
	if got := harness.Median(all); got != 4 {
		t.Errorf("Median(%v) = %v, want 4", all, got)
	}
	if all[0] != 5 {
		t.Errorf("after Median the values are %v, want them in the old order", all)
	}
}

func TestPrintFigures(t *testing.T) {
	var b strings.Builder
	if err := harness.PrintFigures(&b, []harness.Figure{{"a delay", "p99 < 5 ms", "3 ms"}, {"b", "", "4 ms"}}); err != nil {
		t.Fatal(err)
	}
	const want = "WHAT     ASKED       MEASURED\na delay  p99 < 5 ms  3 ms\nb                    4 ms\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
