package dashboard

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics is what the dashboard tells Prometheus.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	desk     *prometheus.CounterVec
	alerts   prometheus.Counter
	sent     prometheus.Counter
	dropped  prometheus.Counter
	resumes  prometheus.Counter
	full     prometheus.Counter
	missed   prometheus.Counter
	panics   prometheus.Counter
	page     http.Handler
}

const namespace, subsystem = "tocsin", "dashboard"

func newMetrics(r *prometheus.Registry) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	m := &metrics{
		registry: r,
		requests: counters("requests_total", "Requests answered, by path and status.", "path", "code"),
		desk:     counters("desk_requests_total", "What people asked for and did, by what and result.", "what", "result"),
		alerts:   counter("alerts_total", "Alerts that came from the bus, each once."),
		sent:     counter("sent_total", "Alerts written to readers, those of their past included."),
		dropped:  counter("dropped_total", "Alerts that readers were too slow for; each was told how many."),
		resumes:  counter("resumes_total", "Readers that went on where they were."),
		full:     counter("readers_refused_total", "Readers refused because there were too many."),
		missed:   counter("missed_total", "Alerts that the bus had dropped before they could be read."),
		panics:   counter("panics_total", "Requests that ended in a bug."),
		page:     promhttp.HandlerFor(r, promhttp.HandlerOpts{}),
	}
	// Another service in this process may have registered these two.
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		var already prometheus.AlreadyRegisteredError
		if err := r.Register(c); err != nil && !errors.As(err, &already) {
			panic(err) // a collision of names is a bug
		}
	}
	return m
}

// watch shows a value that another holds.
func (m *metrics) watch(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, value))
}

func (m *metrics) answered(path string, status int) {
	m.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
}
