package detector

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics is what the detector tells Prometheus.
type metrics struct {
	messages, events, undecodable, lost prometheus.Counter
	publishFailures, snapshotFailures   prometheus.Counter
	takeovers                           prometheus.Counter
	alerts                              *prometheus.CounterVec
	behind, snapshotBytes               *prometheus.GaugeVec
	owned                               prometheus.Gauge
	tally                               tally
}

// newMetrics registers them. refresh has all folds counted, for a scrape.
func newMetrics(r prometheus.Registerer, refresh func()) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tocsin", Subsystem: "detector", Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "tocsin", Subsystem: "detector", Name: name, Help: help}, []string{"partition"})
		r.MustRegister(g)
		return g
	}
	m := &metrics{
		tally:            newTally(refresh),
		messages:         counter("messages_total", "Messages of TELEMETRY that were folded in."),
		events:           counter("events_total", "Events that were folded in."),
		undecodable:      counter("undecodable_total", "Messages of TELEMETRY that were no events, and were skipped."),
		lost:             counter("lost_messages_total", "Messages that TELEMETRY dropped before they were read; where it has several partitions, at most so many, of all of them."),
		publishFailures:  counter("publish_failures_total", "Tries to publish alerts that failed; they are tried again."),
		snapshotFailures: counter("snapshot_failures_total", "Snapshots that could not be saved."),
		takeovers:        counter("takeovers_total", "Partitions that were taken over from a detector that died."),
		behind:           gauge("behind_messages", "Messages of TELEMETRY still to be read, by partition that is owned here."),
		snapshotBytes:    gauge("snapshot_bytes", "Size of the newest snapshot, by partition that is owned here."),
		owned: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "tocsin", Subsystem: "detector", Name: "partitions_owned", Help: "Partitions of TELEMETRY that are folded in here.",
		}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "tocsin", Subsystem: "detector", Name: "alerts_total", Help: "Alerts raised, by category and severity.",
		}, []string{"category", "severity"}),
	}
	r.MustRegister(m.alerts, m.owned, m.tally)
	return m
}

func (m *metrics) behindOf(partition int) prometheus.Gauge {
	return m.behind.WithLabelValues(strconv.Itoa(partition))
}

func (m *metrics) snapshotBytesOf(partition int) prometheus.Gauge {
	return m.snapshotBytes.WithLabelValues(strconv.Itoa(partition))
}

// forget takes out what was told of a partition that is no longer owned here.
func (m *metrics) forget(partition int) {
	m.behind.DeleteLabelValues(strconv.Itoa(partition))
	m.snapshotBytes.DeleteLabelValues(strconv.Itoa(partition))
	m.tally.bytes.DeleteLabelValues(strconv.Itoa(partition))
	m.tally.strangers.DeleteLabelValues(strconv.Itoa(partition))
}
