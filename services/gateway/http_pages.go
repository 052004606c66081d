package gateway

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// errNoRoom says that one client more would be refused.
var errNoRoom = errors.New("as many clients are served as can be: end one of their sessions")

// pages are what the front answers beside MCP. An orchestrator has no token: beyond
// loopback it gets no reasons.
func (f *front) pages() map[string]http.Handler {
	metrics := promhttp.HandlerFor(f.metrics.registry, promhttp.HandlerOpts{})
	return map[string]http.Handler{
		"/healthz": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { httpserve.AnswerHealth(w, r, f.guard.access, nil) }),
		"/readyz": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			httpserve.AnswerHealth(w, r, f.guard.access, f.ready(r))
		}),
		"/metrics": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if f.guard.prove(w, f.guard.access.CheckRead(r)) {
				metrics.ServeHTTP(w, r)
			}
		}),
	}
}

// ready says why a client that comes now would not be served, or nil.
func (f *front) ready(r *http.Request) error {
	if f.full() {
		return errNoRoom
	}
	return f.outlook.ready(r.Context())
}

// frontMetrics is what the front tells Prometheus.
type frontMetrics struct {
	registry     *prometheus.Registry
	came, turned prometheus.Counter
}

func newFrontMetrics(f *front) frontMetrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	options := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "tocsin", Subsystem: "gateway", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts(options(name, help)))
		registry.MustRegister(c)
		return c
	}
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts(options(name, help)), value))
	}
	gauge("clients", "Clients served over HTTP now.", func() float64 { return float64(len(f.served())) })
	gauge("clients_limit", "How many may be served at once.", func() float64 { return maxGuests })
	gauge("inbox_alerts", "Alerts that pend at those clients.", func() float64 { return float64(f.pending()) })
	gauge("bus_connected", "Whether the bus is there: 1 or 0.", func() float64 {
		if f.outlook.connected() {
			return 1
		}
		return 0
	})
	return frontMetrics{
		registry: registry,
		came:     counter("clients_total", "Clients that were taken in."),
		turned:   counter("refused_total", "Clients that were refused because there was no room."),
	}
}

// served are the clients that are served now.
func (f *front) served() []*guest {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*guest, 0, len(f.guests))
	for _, g := range f.guests {
		all = append(all, g)
	}
	return all
}

// pending counts the alerts in their inboxes.
func (f *front) pending() (n int) {
	for _, g := range f.served() {
		_ = g.session.do(g.life, func(s *session, _ time.Time) { n += s.inbox.Len() }) // who is leaving has none
	}
	return n
}
