// Package run folds workloads into the detector, as they would come from the bus
// but without one: message by message, each with one event, a detector of its own
// for each run.
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

// block is how long blocks are of which intervals are made.
const block = 12 * time.Hour

// detector is a fold with the log that goes into it.
type detector struct {
	fold   *fold.Fold
	seq    uint64
	events [1]telemetry.Event
}

func newDetector(set ruleset.Set) *detector {
	return &detector{fold: fold.New(fold.Config{Rules: ruleset.Table{Default: set}})}
}

// take folds in an event.
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

// Judge counts what a detector with those rules tells of a run of errors or of
// page loads. Where they follow each error by itself, escalating is what they tell
// of that; what is new or back is true by itself and not counted.
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
	told, notes := score.Tell(said, start)
	return score.Judge(told, notes, t, block)
}

// What alerts can be of.
func regressions(a *alert.Alert) bool { return a.Category == alert.Regression }
func anomalies(a *alert.Alert) bool   { return a.Category == alert.Anomaly }

// escalations also are the ends of what is not one: they end nothing then.
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

// tell is what a detector says of a run, as far as it is of a kind.
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
