package kubewatch

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

// metrics are the Prometheus metrics of a kubewatch.
type metrics struct {
	published, errors, relists, duplicates, resent *prometheus.CounterVec
	faults, duplicateFaults, grouped, withheld     *prometheus.CounterVec
	active, degraded, lag, objects, open           *prometheus.GaugeVec
}

// The values of the label of published_total.
const (
	publishedEvent = "event"
	publishedFault = "fault"
	publishedLogs  = "logs"
	publishedWatch = "watch"
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
		published:       counters("published_total", "Messages stored on the bus, by type.", "cluster", "what"),
		faults:          counters("faults_total", "Faults published, by kind.", "cluster", "fault"),
		errors:          counters("errors_total", "Failed requests to the cluster. They are retried.", "cluster"),
		relists:         counters("relists_total", "Lists of all events, needed because the cluster no longer knew the version that was read.", "cluster"),
		duplicates:      counters("duplicates_total", "Events skipped because they were published before.", "cluster"),
		resent:          counters("resent_total", "Messages sent again because the bus did not acknowledge them.", "cluster"),
		duplicateFaults: counters("faults_joined_total", "Reports of a fault that was published before.", "cluster"),
		grouped:         counters("faults_gathered_total", "Faults that joined the alert of another pod of their workload.", "cluster"),
		withheld:        counters("faults_withheld_total", "Faults not published, or published later, because of a limit.", "cluster"),
		objects:         gauges("objects", "Objects of the cluster whose state is known."),
		open:            gauges("faults_open", "Faults that last now."),
		active:          gauges("active", "1 if this kubewatch watches the cluster, 0 if it stands by."),
		degraded:        gauges("degraded", "1 if the cluster can't be watched."),
		lag:             gauges("lag_seconds", "Time from the cluster's timestamp of the newest event to the bus. The timestamps have a resolution of 1 s."),
	}
}

// addCluster creates the series of a cluster at 0, so that the first count shows as an
// increase.
func (m *metrics) addCluster(cluster string) {
	for _, what := range []string{publishedEvent, publishedFault, publishedLogs, publishedWatch} {
		m.published.WithLabelValues(cluster, what)
	}
	for _, fault := range kube.Faults() {
		m.faults.WithLabelValues(cluster, fault)
	}
	for _, c := range []*prometheus.CounterVec{m.errors, m.relists, m.duplicates, m.resent, m.duplicateFaults, m.grouped, m.withheld} {
		c.WithLabelValues(cluster)
	}
	for _, g := range []*prometheus.GaugeVec{m.active, m.degraded, m.lag, m.objects, m.open} {
		g.WithLabelValues(cluster).Set(0)
	}
}
