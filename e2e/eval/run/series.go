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

// Rules judge milliseconds and errors in 10 s, and a series from elsewhere has units of its
// own. So each series is scaled by the median of its first observations.
const (
	// usualLoad is the page load that a usual value becomes, in ms: rules ignore rises of
	// less than 50 ms.
	usualLoad = 1000
	// usualErrors is the maximum that a usual count becomes. Smaller counts stay as they
	// are. maxErrors is the maximum that any count becomes.
	usualErrors, maxErrors = 20, 2000
	// step is the time between two observations.
	step = 10 * time.Second
)

// AsLoads returns the observations at which rules open a finding if each is a load of one
// page. Missing observations (NaN) are skipped, negative ones become 0. Only rises can be
// found: a faster page is no regression. The first observations are those that show the
// usual size.
func AsLoads(values []float64, first int, set ruleset.Set) []int {
	factor := usualLoad / usual(values, first, usualLoad)
	r := workload.Run{Length: time.Duration(len(values)) * step}
	for i, v := range values {
		if !math.IsNaN(v) {
			r.Arrivals = append(r.Arrivals, workload.Arrival{At: time.Duration(i) * step, Event: workload.Load(max(0, v*factor))})
		}
	}
	return opened(&r, set, isRegression)
}

// Counts reports whether all observations are counts, and some are above 0.
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

// AsErrors returns the observations at which rules open a finding if each is a count of
// errors, evenly spread over 10 s.
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
	return opened(&r, set, isAnomaly)
}

// usual returns the median size of the first values that are not missing, or a fallback if
// that is 0.
func usual(values []float64, first int, fallback float64) float64 {
	var sizes []float64
	for _, v := range values[:min(first, len(values))] {
		if !math.IsNaN(v) {
			sizes = append(sizes, math.Abs(v))
		}
	}
	slices.Sort(sizes)
	if len(sizes) == 0 || sizes[len(sizes)/2] == 0 {
		return fallback
	}
	return sizes[len(sizes)/2]
}

// opened returns the steps, each once, in which a detector opens a finding of the alerts for
// which keep is true.
func opened(r *workload.Run, set ruleset.Set, keep func(*alert.Alert) bool) []int {
	var steps []int
	findings, _ := score.Findings(alerts(r, set, keep), start)
	for _, f := range findings {
		steps = append(steps, min(int(f.Opened()/step), int(r.Length/step)-1))
	}
	return slices.Compact(steps)
}
