package run

import (
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
)

// Raised counts the alerts about pages that never change, as a reader receives them: also
// in the cold start, and each time that a finding is raised again with more confidence.
type Raised struct{ Alerts, Loads int }

// Add adds another count.
func (r *Raised) Add(o Raised) {
	r.Alerts += o.Alerts
	r.Loads += o.Loads
}

// Per100 returns the alerts in 100 loads.
func (r Raised) Per100() float64 {
	if r.Loads == 0 {
		return 0
	}
	return 100 * float64(r.Alerts) / float64(r.Loads)
}

// Raise counts the alerts that a detector with those rules raises in a run of page
// loads. Alerts that end a finding do not count.
func Raise(r *workload.Run, set ruleset.Set) Raised {
	raised := Raised{Loads: len(r.Arrivals)}
	for _, a := range alerts(r, set, isRegression) {
		if a.Resolves == "" {
			raised.Alerts++
		}
	}
	return raised
}
