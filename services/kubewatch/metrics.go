package kubewatch

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

// metrics is what a kubewatch tells Prometheus.
type metrics struct {
	published, errors, relists, duplicates, resent *prometheus.CounterVec
	faults, joined, gathered, withheld             *prometheus.CounterVec
	active, degraded, lag, objects, open           *prometheus.GaugeVec
}

// What is published, by its label.
const (
	whatEvent = "event"
	whatFault = "fault"
	whatLogs  = "logs"
	whatWatch = "watch"
)

func newMetrics(r prometheus.Registerer) *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tocsin", Subsystem: "kubewatch", Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	gauges := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "tocsin", Subsystem: "kubewatch", Name: name, Help: help}, []string{"cluster"})
		r.MustRegister(g)
		return g
	}
	return &metrics{
		published:  counters("published_total", "Messages that the bus has stored, by what they are.", "cluster", "what"),
		faults:     counters("faults_total", "Faults that were published, by kind.", "cluster", "fault"),
		errors:     counters("errors_total", "Questions to the cluster that failed; they are asked again.", "cluster"),
		relists:    counters("relists_total", "Lists of all events because the cluster had forgotten how far they were read.", "cluster"),
		duplicates: counters("duplicates_total", "Events that were left out because they are published already.", "cluster"),
		resent:     counters("resent_total", "Messages that were sent again because the bus did not say that it has them.", "cluster"),
		joined:     counters("faults_joined_total", "What said the same as a fault that was told.", "cluster"),
		gathered:   counters("faults_gathered_total", "Faults that joined the alert which another pod of their workload had raised.", "cluster"),
		withheld:   counters("faults_withheld_total", "Faults that were not told, or only later, because there were too many at once.", "cluster"),
		objects:    gauges("objects", "Objects of the cluster that are known by their state."),
		open:       gauges("faults_open", "Faults that last."),
		active:     gauges("active", "1 where this kubewatch watches the cluster, 0 where it stands by."),
		degraded:   gauges("degraded", "1 where the cluster can't be watched."),
		lag:        gauges("lag_seconds", "How long the newest event took from the cluster's stamp to the bus. Those of the cluster are to the second."),
	}
}

// begin makes the series of a cluster, so that the first of each counts as an increase.
func (m *metrics) begin(cluster string) {
	for _, what := range []string{whatEvent, whatFault, whatLogs, whatWatch} {
		m.published.WithLabelValues(cluster, what)
	}
	for _, fault := range kube.Faults() {
		m.faults.WithLabelValues(cluster, fault)
	}
	for _, c := range []*prometheus.CounterVec{m.errors, m.relists, m.duplicates, m.resent, m.joined, m.gathered, m.withheld} {
		c.WithLabelValues(cluster)
	}
	for _, g := range []*prometheus.GaugeVec{m.active, m.degraded, m.lag, m.objects, m.open} {
		g.WithLabelValues(cluster).Set(0)
	}
}
