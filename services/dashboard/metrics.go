package dashboard

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// metrics are those of the dashboard.
type metrics struct {
	httpserve.Metrics
	requests *prometheus.CounterVec
	actions  *prometheus.CounterVec
	alerts   prometheus.Counter
	sent     prometheus.Counter
	dropped  prometheus.Counter
	resumes  prometheus.Counter
	full     prometheus.Counter
	missed   prometheus.Counter
	panics   prometheus.Counter
	page     http.Handler
}

func newMetrics(r *prometheus.Registry) *metrics {
	m := httpserve.NewMetrics(r, "dashboard")
	return &metrics{
		Metrics:  m,
		requests: m.Requests(),
		actions:  m.CounterVec("desk_requests_total", "Requests of people, by what and result.", "what", "result"),
		alerts:   m.Counter("alerts_total", "Alerts read from the bus, each once."),
		sent:     m.Counter("sent_total", "Alerts written to readers, including replayed ones."),
		dropped:  m.Counter("dropped_total", "Alerts that slow readers missed."),
		resumes:  m.Counter("resumes_total", "Readers that resumed from their position."),
		full:     m.Counter("readers_refused_total", "Readers refused because there were too many."),
		missed:   m.Counter("missed_total", "Alerts that the bus dropped before the dashboard read them."),
		panics:   m.Panics(),
		page:     m.Handler(),
	}
}
