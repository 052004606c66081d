package httpserve

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry makes a registry with the metrics of the Go runtime and of the process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	registerProcess(r)
	return r
}

// registerProcess registers the metrics of the runtime and the process, unless another
// service in this process has.
func registerProcess(r *prometheus.Registry) {
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		var already prometheus.AlreadyRegisteredError
		if err := r.Register(c); err != nil && !errors.As(err, &already) {
			panic(err) // a collision of names is a bug
		}
	}
}

// Metrics makes and registers the metrics of one service, tocsin_SUBSYSTEM_NAME. Its
// methods panic where a name is taken.
type Metrics struct {
	registry  *prometheus.Registry
	subsystem string
}

// NewMetrics prepares a registry, which gets the metrics of the runtime and the process
// too, once.
func NewMetrics(registry *prometheus.Registry, subsystem string) Metrics {
	registerProcess(registry)
	return Metrics{registry, subsystem}
}

func (m Metrics) opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "tocsin", Subsystem: m.subsystem, Name: name, Help: help}
}

// Counter registers a counter.
func (m Metrics) Counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts(m.opts(name, help)))
	m.registry.MustRegister(c)
	return c
}

// CounterVec registers a counter with labels.
func (m Metrics) CounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts(m.opts(name, help)), labels)
	m.registry.MustRegister(c)
	return c
}

// GaugeFunc registers a gauge whose value is asked for with each scrape.
func (m Metrics) GaugeFunc(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts(m.opts(name, help)), value))
}

// Histogram registers a histogram.
func (m Metrics) Histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "tocsin", Subsystem: m.subsystem, Name: name, Help: help, Buckets: buckets,
	})
	m.registry.MustRegister(h)
	return h
}

// Requests registers requests_total, for Config.Requests.
func (m Metrics) Requests() *prometheus.CounterVec {
	return m.CounterVec("requests_total", "Requests answered, by path and status.", "path", "code")
}

// Panics registers panics_total, for Config.Panics.
func (m Metrics) Panics() prometheus.Counter {
	return m.Counter("panics_total", "Requests that ended in a panic.")
}

// Handler serves the whole registry, for a route GET /metrics.
func (m Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Plain is Route.Handle of a handler that has no errors.
func Plain(h http.Handler) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}
