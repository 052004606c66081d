package detector

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the detector's Prometheus metrics.
type metrics struct {
	messages, events, undecodable, lost prometheus.Counter
	publishFailures, snapshotFailures   prometheus.Counter
	takeovers                           prometheus.Counter
	alerts                              *prometheus.CounterVec
	backlog, snapshotBytes              *prometheus.GaugeVec
	owned                               prometheus.Gauge
	fold                                foldMetrics
}

// newMetrics registers the metrics. refresh reads the counters of all folds before a
// scrape.
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
		fold:             newFoldMetrics(refresh),
		messages:         counter("messages_total", "Messages of the stream TELEMETRY processed."),
		events:           counter("events_total", "Events processed."),
		undecodable:      counter("undecodable_total", "Messages of the stream TELEMETRY skipped because they could not be decoded."),
		lost:             counter("lost_messages_total", "Messages that the stream TELEMETRY dropped before they were read. With several partitions this is an upper bound over all of them."),
		publishFailures:  counter("publish_failures_total", "Failed attempts to publish alerts. They are retried."),
		snapshotFailures: counter("snapshot_failures_total", "Snapshots that could not be saved."),
		takeovers:        counter("takeovers_total", "Partitions taken over from a detector that died."),
		backlog:          gauge("behind_messages", "Messages of the stream TELEMETRY not yet read, by partition owned by this detector."),
		snapshotBytes:    gauge("snapshot_bytes", "Size of the newest snapshot, by partition owned by this detector."),
		owned: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "tocsin", Subsystem: "detector", Name: "partitions_owned", Help: "Partitions of TELEMETRY owned by this detector.",
		}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "tocsin", Subsystem: "detector", Name: "alerts_total", Help: "Alerts raised, by category and severity.",
		}, []string{"category", "severity"}),
	}
	r.MustRegister(m.alerts, m.owned, m.fold)
	return m
}

func (m *metrics) backlogOf(partition int) prometheus.Gauge {
	return m.backlog.WithLabelValues(strconv.Itoa(partition))
}

func (m *metrics) snapshotBytesOf(partition int) prometheus.Gauge {
	return m.snapshotBytes.WithLabelValues(strconv.Itoa(partition))
}

// forget removes the series of a partition that is no longer owned here.
func (m *metrics) forget(partition int) {
	label := strconv.Itoa(partition)
	for _, g := range []*prometheus.GaugeVec{m.backlog, m.snapshotBytes, m.fold.bytes, m.fold.notTracked} {
		g.DeleteLabelValues(label)
	}
}
