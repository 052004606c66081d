package worker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

// Observer receives what a worker does. It is called from several goroutines.
type Observer interface {
	// Active counts the sessions that this process works on.
	Active(delta int)
	// SessionEnded and StageEnded have the time since the start; it is 0 where that is not known.
	SessionEnded(status session.Status, d time.Duration)
	StageEnded(status session.Status, d time.Duration)
	// ModelAsked has the outcome "answered", or the kind of the failure.
	ModelAsked(provider, purpose, outcome string, d time.Duration, u model.Usage, costUSD float64)
	ToolCalled(server string, isError bool, d time.Duration)
	FellBack(from, to string)
	// TakenOver counts sessions that another worker had not given back, and Conflict appends
	// that had to be decided again.
	TakenOver()
	Conflict()
}

// begins has when things began, to measure how long they took.
type begins struct {
	session time.Time
	stages  map[string]time.Time
}

func (b *begins) add(facts []session.Fact) {
	for _, f := range facts {
		switch {
		case f.Claimed != nil && b.session.IsZero():
			b.session = f.Time
		case f.Retried != nil:
			b.session = time.Time{}
		case f.StageStarted != nil:
			b.stages[f.StageStarted.ID] = f.Time
		}
	}
}

// observe reports stored facts.
func (r *run) observe(facts []session.Fact) {
	r.begins.add(facts)
	since := func(t, begin time.Time) time.Duration {
		if begin.IsZero() {
			return 0
		}
		return t.Sub(begin)
	}
	for _, f := range facts {
		switch {
		case f.StageEnded != nil:
			r.cfg.Observer.StageEnded(f.StageEnded.Status, since(f.Time, r.begins.stages[f.StageEnded.ID]))
		case f.FellBack != nil:
			r.cfg.Observer.FellBack(f.FellBack.From, f.FellBack.To)
		case f.Ended != nil:
			r.cfg.Observer.SessionEnded(f.Ended.Status, since(f.Time, r.begins.session))
		}
	}
}

// Metrics is an [Observer] with Prometheus metrics.
type Metrics struct {
	active                  prometheus.Gauge
	takeovers, conflicts    prometheus.Counter
	sessions, stages        *prometheus.HistogramVec
	models, tools           *prometheus.HistogramVec
	tokens, cost, fallbacks *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	const namespace, subsystem = "tocsin", "investigator"
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
	histograms := func(name, help string, labels ...string) *prometheus.HistogramVec {
		const first, factor, count = 0.1, 2, 15 // 100 ms to 27 min
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(first, factor, count),
		}, labels)
		r.MustRegister(h)
		return h
	}
	m := &Metrics{
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "sessions_active", Help: "Investigation sessions that this process works on.",
		}),
		takeovers: counter("takeovers_total", "Sessions taken over from a worker that ended without giving them back."),
		conflicts: counter("conflicts_total", "Appends to a session that were decided again, because others had appended."),
		sessions:  histograms("session_seconds", "Time from the first claim of a session to its end, by status.", "status"),
		stages:    histograms("stage_seconds", "Duration of stages, by status.", "status"),
		models:    histograms("model_seconds", "Duration of calls of models with all retries, by provider, purpose and outcome.", "provider", "purpose", "outcome"),
		tools:     histograms("tool_seconds", "Duration of tool calls, by server and outcome.", "server", "outcome"),
		tokens:    counters("tokens_total", "Tokens, by provider and kind. Input includes cached, output includes thinking.", "provider", "kind"),
		cost:      counters("cost_usd_total", "Cost of calls of models by the configured prices, by provider.", "provider"),
		fallbacks: counters("fallbacks_total", "Changes of the provider after a failure.", "from", "to"),
	}
	r.MustRegister(m.active)
	return m
}

// Active implements [Observer].
func (m *Metrics) Active(delta int) { m.active.Add(float64(delta)) }

// SessionEnded implements [Observer].
func (m *Metrics) SessionEnded(status session.Status, d time.Duration) {
	m.sessions.WithLabelValues(string(status)).Observe(d.Seconds())
}

// StageEnded implements [Observer].
func (m *Metrics) StageEnded(status session.Status, d time.Duration) {
	m.stages.WithLabelValues(string(status)).Observe(d.Seconds())
}

// ModelAsked implements [Observer].
func (m *Metrics) ModelAsked(provider, purpose, outcome string, d time.Duration, u model.Usage, costUSD float64) {
	m.models.WithLabelValues(provider, purpose, outcome).Observe(d.Seconds())
	for kind, n := range map[string]int{"input": u.Input, "cached": u.Cached, "output": u.Output, "thinking": u.Thinking} {
		if n > 0 {
			m.tokens.WithLabelValues(provider, kind).Add(float64(n))
		}
	}
	if costUSD > 0 {
		m.cost.WithLabelValues(provider).Add(costUSD)
	}
}

// ToolCalled implements [Observer].
func (m *Metrics) ToolCalled(server string, isError bool, d time.Duration) {
	outcome := "answered"
	if isError {
		outcome = "error"
	}
	m.tools.WithLabelValues(server, outcome).Observe(d.Seconds())
}

// FellBack implements [Observer].
func (m *Metrics) FellBack(from, to string) { m.fallbacks.WithLabelValues(from, to).Inc() }

// TakenOver implements [Observer].
func (m *Metrics) TakenOver() { m.takeovers.Inc() }

// Conflict implements [Observer].
func (m *Metrics) Conflict() { m.conflicts.Inc() }
