package run

import (
	"math"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// How a series of numbers from elsewhere becomes telemetry. The rules go by
// milliseconds and by errors in 10 s, and series have units of their own, so each
// is brought to a usual size by the median of what comes first.
const (
	// usualLoad is what a value that is usual takes as a page load, in ms: the rules
	// ask for at least 50 ms more.
	usualLoad = 1000
	// usualErrors is the most errors that a usual count becomes; counts that are
	// smaller stay as they are. maxErrors bounds what one count becomes.
	usualErrors, maxErrors = 20, 2000
	// step is how long one observation takes, for both.
	step = 10 * time.Second
)

// AsLoads is at which observations a finding was opened when each is a load of one
// page. Missing ones (NaN) are skipped, negative ones are 0. Only what rises can
// be found: to a page, to be fast is no regression. Of the observations the first
// so many are looked at before, to bring them to the usual size.
func AsLoads(values []float64, first int, set ruleset.Set) []int {
	factor := usualLoad / usual(values, first, usualLoad)
	r := workload.Run{Length: time.Duration(len(values)) * step}
	for i, v := range values {
		if !math.IsNaN(v) {
			r.Arrivals = append(r.Arrivals, workload.Arrival{At: time.Duration(i) * step, Event: workload.Load(max(0, v*factor))})
		}
	}
	return opened(&r, set, regressions)
}

// Counts reports whether observations are counts, and so can be taken for errors.
func Counts(values []float64) bool {
	some := false
	for _, v := range values {
		if v < 0 || v != math.Trunc(v) && !math.IsNaN(v) {
			return false
		}
		some = some || v > 0
	}
	return some
}

// AsErrors is at which observations a finding was opened when each is a count of
// errors in 10 s, which come evenly.
func AsErrors(values []float64, first int, set ruleset.Set) []int {
	factor := min(1, usualErrors/usual(values, first, usualErrors))
	r := workload.Run{Length: time.Duration(len(values)) * step}
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		n := int(min(math.Round(v*factor), maxErrors))
		for k := range n {
			r.Arrivals = append(r.Arrivals, workload.Arrival{At: time.Duration(i)*step + time.Duration(k)*step/time.Duration(n), Event: workload.Failure()})
		}
	}
	for i := range r.Arrivals {
		r.Arrivals[i].At = r.Arrivals[i].At.Truncate(time.Millisecond)
	}
	return opened(&r, set, anomalies)
}

// usual is the median of the sizes of the first so many values that there are, or
// otherwise if that is 0.
func usual(values []float64, first int, otherwise float64) float64 {
	var sizes []float64
	for _, v := range values[:min(first, len(values))] {
		if !math.IsNaN(v) {
			sizes = append(sizes, math.Abs(v))
		}
	}
	slices.Sort(sizes)
	if len(sizes) == 0 || sizes[len(sizes)/2] == 0 {
		return otherwise
	}
	return sizes[len(sizes)/2]
}

// opened is in which steps a detector opens a finding of a kind, each once.
func opened(r *workload.Run, set ruleset.Set, of func(*alert.Alert) bool) []int {
	var steps []int
	findings, _ := score.Findings(tell(r, set, of), start)
	for _, t := range findings {
		steps = append(steps, min(int(t.Opened()/step), int(r.Length/step)-1))
	}
	return slices.Compact(steps)
}
