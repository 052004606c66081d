package detector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
)

// tally is what folds count themselves, as Prometheus has it: what they hide, hold back
// and forget. To count takes a look at every app, so it is done for each scrape, and
// with each snapshot: what a partition has counted is not lost when it ends.
type tally struct {
	hidden, held, heldLost, expected, untracked prometheus.Counter
	forgotten                                   *prometheus.CounterVec
	bytes, strangers                            *prometheus.GaugeVec
	// refresh has all folds counted.
	refresh func()
}

func (t tally) collectors() []prometheus.Collector {
	return []prometheus.Collector{t.hidden, t.held, t.heldLost, t.expected, t.untracked, t.forgotten, t.bytes, t.strangers}
}

// Describe implements prometheus.Collector.
func (t tally) Describe(out chan<- *prometheus.Desc) {
	for _, c := range t.collectors() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (t tally) Collect(out chan<- prometheus.Metric) {
	t.refresh()
	for _, c := range t.collectors() {
		c.Collect(out)
	}
}

func newTally(refresh func()) tally {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tocsin", Subsystem: "detector", Name: name, Help: help})
	}
	t := tally{
		refresh:   refresh,
		hidden:    counter("hidden_events_total", "Events under a noise rule, which raise no alert."),
		held:      counter("held_alerts_total", "Alerts held back in a storm; the next of their key, or the summary of their app, counts them."),
		heldLost:  counter("held_lost_alerts_total", "Alerts held back that no other will count, because their key or their app was forgotten."),
		expected:  counter("expected_bursts_total", "Bursts of errors that came by a learned schedule and whose alerts stayed at severity info."),
		untracked: counter("untracked_events_total", "Events of apps that are not tracked, because there are too many others."),
		forgotten: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "tocsin", Subsystem: "detector", Name: "forgotten_total",
			Help: "What was forgotten for want of room, by what it was; what went with its app counts as one app.",
		}, []string{"what"}),
		bytes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "tocsin", Subsystem: "detector", Name: "state_bytes",
			Help: "About how much memory is taken by what is remembered of apps, by partition that is owned here.",
		}, []string{"partition"}),
		strangers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "tocsin", Subsystem: "detector", Name: "apps_not_tracked",
			Help: "Apps that had an event within 24 h and are not tracked, at most 10,000, by partition that is owned here.",
		}, []string{"partition"}),
	}
	for what := range forgotten(fold.Evicted{}) { // so that the first one counts as an increase
		t.forgotten.WithLabelValues(what)
	}
	return t
}

// add tells what a fold counted since it was told before.
func (t tally) add(before, now fold.Stats) {
	since := func(before, now uint64) float64 { return float64(now - min(before, now)) }
	t.hidden.Add(since(before.Hidden, now.Hidden))
	t.held.Add(since(before.Held, now.Held))
	t.heldLost.Add(since(before.HeldLost, now.HeldLost))
	t.expected.Add(since(before.Recurring, now.Recurring))
	t.untracked.Add(since(before.Untracked, now.Untracked))
	earlier := forgotten(before.Evicted)
	for what, n := range forgotten(now.Evicted) {
		t.forgotten.WithLabelValues(what).Add(since(earlier[what], n))
	}
}

// forgotten is what a fold evicted, by the names that Prometheus has for it.
func forgotten(e fold.Evicted) map[string]uint64 {
	return map[string]uint64{
		"apps": e.Apps, "pages": e.Pages, "templates": e.Templates, "errors": e.Errors, "circuits": e.Circuits, "targets": e.Targets,
		"ci_results": e.CIResults, "ci_failures": e.CIFailures, "external_alerts": e.ExternalAlerts, "storm_keys": e.StormKeys,
		"noise_patterns": e.NoiseLeftOut, "spikes": e.Spikes, "releases": e.Releases,
	}
}
