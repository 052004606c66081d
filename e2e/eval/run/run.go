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

// block is the length of the blocks for intervals.
const block = 12 * time.Hour

// detector is a fold with its log.
type detector struct {
	fold   *fold.Fold
	seq    uint64
	events [1]telemetry.Event
}

func newDetector(set ruleset.Set) *detector {
	return &detector{fold: fold.New(fold.Config{Rules: ruleset.Table{Default: set}})}
}

// take applies an event.
func (d *detector) take(a *workload.Arrival) []alert.Alert {
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
// loads. escalating are those about single errors, for rules that track them; alerts about
// new or returning errors are not counted.
func Judge(w *workload.Workload, r *workload.Run, set ruleset.Set) (blocks, escalating []score.Tally) {
	t := truth(w, r)
	if w.Kind == workload.Loads {
		return judge(tell(r, set, regressions), t, 0), nil
	}
	said := tell(r, set, func(a *alert.Alert) bool { return anomalies(a) || escalations(a) })
	blocks = judge(only(said, anomalies), t, block)
	if set.Anomaly != ruleset.Ratio3x {
		escalating = judge(only(said, escalations), t, block)
	}
	return blocks, escalating
}

func judge(said []alert.Alert, t score.Truth, block time.Duration) []score.Tally {
	findings, notes := score.Findings(said, start)
	return score.Judge(findings, notes, t, block)
}

// The kinds of alerts.
func regressions(a *alert.Alert) bool { return a.Category == alert.Regression }
func anomalies(a *alert.Alert) bool   { return a.Category == alert.Anomaly }

// escalations also are the ends of other alerts about errors, which end nothing here.
func escalations(a *alert.Alert) bool {
	return a.Category == alert.Errors && (a.Context["state"] == "escalating" || a.Resolves != "")
}

func only(alerts []alert.Alert, of func(*alert.Alert) bool) (some []alert.Alert) {
	for i := range alerts {
		if of(&alerts[i]) {
			some = append(some, alerts[i])
		}
	}
	return some
}

// tell returns the alerts of one kind that a detector raises in a run.
func tell(r *workload.Run, set ruleset.Set, of func(*alert.Alert) bool) (said []alert.Alert) {
	d := newDetector(set)
	for i := range r.Arrivals {
		said = append(said, only(d.take(&r.Arrivals[i]), of)...)
	}
	return append(said, only(d.finish(r.Length), of)...)
}

// truth is what the score is to know of a run.
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
