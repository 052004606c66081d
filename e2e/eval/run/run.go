// Package run folds workloads into the detector, as they would come from the bus
// but without one: message by message, each with one event, a detector of its own
// for each run.
package run

import (
	"time"

	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/rules"
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

func newDetector(set rules.Set) *detector {
	return &detector{fold: fold.New(fold.Config{Rules: rules.Table{Default: set}})}
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
// page loads.
func Judge(w *workload.Workload, r *workload.Run, set rules.Set) []score.Tally {
	category, length := alert.Anomaly, block
	if w.Kind == workload.Loads {
		category, length = alert.Regression, 0
	}
	told, notes := score.Tell(tell(r, set, category), start)
	return score.Judge(told, notes, truth(w, r), length)
}

// tell is what a detector says of a run in one category.
func tell(r *workload.Run, set rules.Set, category alert.Category) []alert.Alert {
	d := newDetector(set)
	var said []alert.Alert
	keep := func(alerts []alert.Alert) {
		for _, a := range alerts {
			if a.Category == category {
				said = append(said, a)
			}
		}
	}
	for i := range r.Arrivals {
		keep(d.take(&r.Arrivals[i]))
	}
	keep(d.finish(r.Length))
	return said
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
