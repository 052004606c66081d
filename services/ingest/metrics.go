package ingest

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// metrics are the metrics of ingest.
type metrics struct {
	httpserve.Metrics
	requests       *prometheus.CounterVec
	events         *prometheus.CounterVec
	ciResults      *prometheus.CounterVec
	alerts         *prometheus.CounterVec
	leftOut        *prometheus.CounterVec
	shed, panics   prometheus.Counter
	reportsDropped prometheus.Counter
	publishSeconds prometheus.Histogram
	page           http.Handler
	// acceptedEvents is the sum of events.
	acceptedEvents atomic.Uint64
}

func newMetrics(r *prometheus.Registry) *metrics {
	m := httpserve.NewMetrics(r, "ingest")
	return &metrics{
		Metrics:   m,
		requests:  m.Requests(),
		events:    m.CounterVec("events_total", "Events accepted, by kind.", "kind"),
		ciResults: m.CounterVec("ci_results_total", "CI results accepted, by status.", "status"),
		alerts:    m.CounterVec("alerts_total", "Alerts of other monitoring systems accepted, by state.", "state"),
		leftOut: m.CounterVec("left_out_total",
			"Items of accepted requests in a foreign format that could not become events or alerts, by path.", "path"),
		shed:   m.Counter("shed_total", "Requests refused because too many requests or bytes were in flight."),
		panics: m.Panics(),
		reportsDropped: m.Counter("reports_dropped_total",
			"Reports of ingest about itself that were dropped because too many waited for the bus."),
		publishSeconds: m.Histogram("publish_seconds",
			"Time from the first message of a request to the last acknowledgement of the stream TELEMETRY.",
			[]float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}),
		page: m.Handler(),
	}
}

// watch registers the gauges of values that others hold.
func (m *metrics) watch(l *inFlight, s *busSink) {
	m.GaugeFunc("in_flight_bytes", "Bytes of bodies in flight.", func() float64 { return float64(l.used.Load()) })
	m.GaugeFunc("in_flight_requests", "Requests with a body in flight.", func() float64 { return float64(l.requests.Load()) })
	m.GaugeFunc("in_flight_limit_bytes", "How many bytes of bodies may be in flight.", func() float64 { return float64(l.limit) })
	m.GaugeFunc("breaker_state", "The circuit breaker to the bus: 0 closed, 1 half open, 2 open.",
		func() float64 { return float64(s.breaker.State()) })
}

// countEvents counts accepted events.
func (m *metrics) countEvents(kind telemetry.Kind, n int) {
	m.events.WithLabelValues(string(kind)).Add(float64(n))
	m.acceptedEvents.Add(uint64(n))
}
