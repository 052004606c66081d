package detector

import "github.com/prometheus/client_golang/prometheus"

// metrics is what the detector tells Prometheus.
type metrics struct {
	messages, events, undecodable, lost prometheus.Counter
	publishFailures, snapshotFailures   prometheus.Counter
	alerts                              *prometheus.CounterVec
	behind, snapshotBytes               prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tocsin", Subsystem: "detector", Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tocsin", Subsystem: "detector", Name: name, Help: help})
		r.MustRegister(g)
		return g
	}
	m := &metrics{
		messages:         counter("messages_total", "Messages of TELEMETRY that were folded in."),
		events:           counter("events_total", "Events that were folded in."),
		undecodable:      counter("undecodable_total", "Messages of TELEMETRY that were no events, and were skipped."),
		lost:             counter("lost_messages_total", "Messages that TELEMETRY dropped before they were read."),
		publishFailures:  counter("publish_failures_total", "Tries to publish alerts that failed; they are tried again."),
		snapshotFailures: counter("snapshot_failures_total", "Snapshots that could not be saved."),
		behind:           gauge("behind_messages", "Messages of TELEMETRY still to be read."),
		snapshotBytes:    gauge("snapshot_bytes", "Size of the newest snapshot."),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "tocsin", Subsystem: "detector", Name: "alerts_total", Help: "Alerts raised, by category and severity.",
		}, []string{"category", "severity"}),
	}
	r.MustRegister(m.alerts)
	return m
}
