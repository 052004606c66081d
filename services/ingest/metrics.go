package ingest

import (
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// metrics is what the intake tells Prometheus.
type metrics struct {
	registry       *prometheus.Registry
	requests       *prometheus.CounterVec
	events         *prometheus.CounterVec
	ciResults      *prometheus.CounterVec
	alerts         *prometheus.CounterVec
	leftOut        *prometheus.CounterVec
	shed, panics   prometheus.Counter
	reportsDropped prometheus.Counter
	publishSeconds prometheus.Histogram
	page           http.Handler
	// accepted is the sum of events.
	accepted atomic.Uint64
}

func newMetrics(r *prometheus.Registry) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tocsin", Subsystem: "ingest", Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tocsin", Subsystem: "ingest", Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	m := &metrics{
		registry:  r,
		requests:  counters("requests_total", "Requests answered, by path and status.", "path", "code"),
		events:    counters("events_total", "Events accepted, by kind.", "kind"),
		ciResults: counters("ci_results_total", "CI results accepted, by status.", "status"),
		alerts:    counters("alerts_total", "Alerts of other monitoring systems accepted, by state.", "state"),
		leftOut: counters("left_out_total",
			"Items of accepted requests in a foreign format that could not be made ours, by path.", "path"),
		shed:   counter("shed_total", "Requests refused because too many requests or bytes were under way."),
		panics: counter("panics_total", "Requests that ended in a bug."),
		reportsDropped: counter("reports_dropped_total",
			"Reports of the intake about itself that were dropped because too many waited for the bus."),
		publishSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "tocsin", Subsystem: "ingest", Name: "publish_seconds",
			Help:    "Time from the first message of a request to the last acknowledgement of the stream TELEMETRY.",
			Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		page: promhttp.HandlerFor(r, promhttp.HandlerOpts{}),
	}
	r.MustRegister(m.publishSeconds)
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

// watch shows the values that others hold.
func (m *metrics) watch(l *load, s *busSink) {
	gauge := func(name, help string, value func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "tocsin", Subsystem: "ingest", Name: name, Help: help}, value))
	}
	gauge("in_flight_bytes", "Bytes of bodies under way.", func() float64 { return float64(l.used.Load()) })
	gauge("in_flight_requests", "Requests with a body under way.", func() float64 { return float64(l.requests.Load()) })
	gauge("in_flight_limit_bytes", "How many bytes of bodies may be under way.", func() float64 { return float64(l.limit) })
	gauge("breaker_state", "The circuit breaker to the bus: 0 closed, 1 half open, 2 open.",
		func() float64 { return float64(s.breaker.State()) })
}

// took counts accepted events.
func (m *metrics) took(kind telemetry.Kind, n int) {
	m.events.WithLabelValues(string(kind)).Add(float64(n))
	m.accepted.Add(uint64(n))
}

func (m *metrics) answered(path string, status int) {
	m.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
}
