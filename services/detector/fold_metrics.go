package detector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
)

// foldMetrics exports the counters that folds keep themselves. Reading them visits
// every app, so it happens once for each scrape and each snapshot. The snapshot's read
// keeps the counts of a partition that ends.
type foldMetrics struct {
	hidden, suppressed, lostSuppressed, recurring, untracked prometheus.Counter
	evicted                                                  *prometheus.CounterVec
	bytes, notTracked                                        *prometheus.GaugeVec
	// refresh reads the counters of all folds.
	refresh func()
}

func (m foldMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.hidden, m.suppressed, m.lostSuppressed, m.recurring, m.untracked, m.evicted, m.bytes, m.notTracked}
}

// Describe implements prometheus.Collector.
func (m foldMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (m foldMetrics) Collect(out chan<- prometheus.Metric) {
	m.refresh()
	for _, c := range m.collectors() {
		c.Collect(out)
	}
}

func newFoldMetrics(refresh func()) foldMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tocsin", Subsystem: "detector", Name: name, Help: help})
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "tocsin", Subsystem: "detector", Name: name, Help: help}, []string{"partition"})
	}
	m := foldMetrics{
		refresh:        refresh,
		hidden:         counter("hidden_events_total", "Events that match a noise rule and raise no alert."),
		suppressed:     counter("held_alerts_total", "Alerts suppressed by the storm limit. The next alert of the same key, or the summary of the app, includes them in its count."),
		lostSuppressed: counter("held_lost_alerts_total", "Suppressed alerts that no later alert will count, because their key or app was evicted."),
		recurring:      counter("expected_bursts_total", "Error bursts that match a learned schedule, whose alerts stayed at severity info."),
		untracked:      counter("untracked_events_total", "Events of apps that are not tracked because the limit on apps is reached."),
		evicted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "tocsin", Subsystem: "detector", Name: "forgotten_total",
			Help: "Entries evicted at a memory limit, by type. The entries of an evicted app count as one app.",
		}, []string{"what"}),
		bytes:      gauge("state_bytes", "Approximate memory used by the state of apps, by partition owned by this detector."),
		notTracked: gauge("apps_not_tracked", "Apps with an event within 24 h that are not tracked, at most 10,000, by partition owned by this detector."),
	}
	for what := range evictions(fold.Evicted{}) { // a series that starts at 0 shows its first eviction as an increase
		m.evicted.WithLabelValues(what)
	}
	return m
}

// add adds what a fold counted between two reads.
func (m foldMetrics) add(before, now fold.Stats) {
	since := func(before, now uint64) float64 { return float64(now - min(before, now)) }
	m.hidden.Add(since(before.Hidden, now.Hidden))
	m.suppressed.Add(since(before.Suppressed, now.Suppressed))
	m.lostSuppressed.Add(since(before.SuppressedLost, now.SuppressedLost))
	m.recurring.Add(since(before.Recurring, now.Recurring))
	m.untracked.Add(since(before.Untracked, now.Untracked))
	earlier := evictions(before.Evicted)
	for what, n := range evictions(now.Evicted) {
		m.evicted.WithLabelValues(what).Add(since(earlier[what], n))
	}
}

// evictions returns the eviction counts of a fold by their label values.
func evictions(e fold.Evicted) map[string]uint64 {
	return map[string]uint64{
		"apps": e.Apps, "pages": e.Pages, "templates": e.Templates, "errors": e.Errors, "circuits": e.Circuits, "targets": e.Targets,
		"ci_results": e.CIResults, "ci_failures": e.CIFailures, "external_alerts": e.ExternalAlerts, "storm_keys": e.StormKeys,
		"noise_patterns": e.NoiseLeftOut, "spikes": e.Spikes, "releases": e.Releases,
	}
}
