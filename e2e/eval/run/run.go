// Package run applies workloads to detectors without a bus: message by message, each with
// one event, to a new detector for each run.
package run

import (
	"time"

	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// start is when every run begins. Nothing depends on it.
var start = time.UnixMilli(1_770_000_000_000).UTC()

// block is the length of the blocks that intervals are estimated from.
const block = 12 * time.Hour

// detector is a fold and the position in its log.
type detector struct {
	fold   *fold.Fold
	seq    uint64
	events [1]telemetry.Event
}

func newDetector(set ruleset.Set) *detector {
	return &detector{fold: fold.New(fold.Config{Rules: ruleset.Table{Default: set}})}
}

// apply applies an event.
func (d *detector) apply(a *workload.Arrival) []alert.Alert {
	d.seq++
	d.events[0] = *a.Event
	return d.fold.Apply(fold.Message{Seq: d.seq, Time: start.Add(a.At), Events: d.events[:]}).Alerts
}

// finish lets time pass to the end of a run.
func (d *detector) finish(length time.Duration) []alert.Alert {
	d.seq++
	return d.fold.Apply(fold.Message{Seq: d.seq, Time: start.Add(length)}).Alerts
}

// Judge counts the findings of a detector with some rules in a run of errors or of page
// loads. escalating has the findings about single errors, for rules that track them. Alerts
// about new or returning errors are not counted.
func Judge(w *workload.Workload, r *workload.Run, set ruleset.Set) (blocks, escalating []score.Tally) {
	t := truth(w, r)
	if w.Kind == workload.Loads {
		return judge(alerts(r, set, isRegression), t, 0), nil
	}
	raised := alerts(r, set, func(a *alert.Alert) bool { return isAnomaly(a) || isEscalation(a) })
	blocks = judge(only(raised, isAnomaly), t, block)
	if set.Anomaly != ruleset.Ratio3x {
		escalating = judge(only(raised, isEscalation), t, block)
	}
	return blocks, escalating
}

func judge(raised []alert.Alert, t score.Truth, block time.Duration) []score.Tally {
	findings, notes := score.Findings(raised, start)
	return score.Judge(findings, notes, t, block)
}

func isRegression(a *alert.Alert) bool { return a.Category == alert.Regression }
func isAnomaly(a *alert.Alert) bool    { return a.Category == alert.Anomaly }

// isEscalation reports whether an alert is about a single error that escalates, or resolves
// an alert about an error. A resolution of an alert that is not counted changes nothing.
func isEscalation(a *alert.Alert) bool {
	return a.Category == alert.Errors && (a.Context["state"] == "escalating" || a.Resolves != "")
}

// only returns the alerts for which keep is true.
func only(all []alert.Alert, keep func(*alert.Alert) bool) (some []alert.Alert) {
	for i := range all {
		if keep(&all[i]) {
			some = append(some, all[i])
		}
	}
	return some
}

// alerts returns the alerts that a detector raises in a run and for which keep is true.
func alerts(r *workload.Run, set ruleset.Set, keep func(*alert.Alert) bool) (raised []alert.Alert) {
	d := newDetector(set)
	for i := range r.Arrivals {
		raised = append(raised, only(d.apply(&r.Arrivals[i]), keep)...)
	}
	return append(raised, only(d.finish(r.Length), keep)...)
}

// truth returns the truth about a run, without its arrivals.
func truth(w *workload.Workload, r *workload.Run) score.Truth {
	t := score.Truth{Length: r.Length}
	for _, e := range r.Episodes {
		t.Episodes = append(t.Episodes, score.Episode{Start: e.Start, End: e.End, Grace: e.Grace})
	}
	for _, s := range r.Learning {
		t.Learning = append(t.Learning, score.Span{From: s.From, To: s.To})
	}
	if w.Kind == workload.Loads {
		for _, a := range r.Arrivals {
			t.Loads = append(t.Loads, a.At)
		}
	}
	return t
}
