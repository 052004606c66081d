package investigator

import (
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// The paths outside the API.
const (
	pathAPI     = "/api/v1"
	pathSession = pathAPI + "/sessions/{id}"
	pathAlive   = "/healthz"
	pathReady   = "/readyz"
	pathMetrics = "/metrics"
	pathHealth  = "/health"
)

// discardLimit is how much of the body of a refused request is read.
const discardLimit = 2 * maxBody

// handler answers every request of the investigator.
type handler struct {
	*httpserve.Front
	access  httpguard.Access
	proxies Proxies
	version string
	log     *slog.Logger
	metrics httpserve.Metrics

	config   func() *config.Config
	registry *toolbox.Registry
	warnings *warnings
	// backend is nil while there is no connection to the bus.
	backend atomic.Pointer[backend]
	// reachable returns why the bus can't be reached, or nil.
	reachable func() error
}

// handlerConfig configures a handler.
type handlerConfig struct {
	addr, token  string
	exposed      bool
	allowedHosts []string
	proxies      Proxies
	version      string
	config       func() *config.Config
	registry     *toolbox.Registry
	warnings     *warnings
	metrics      *prometheus.Registry
	reachable    func() error
	logger       *slog.Logger
}

func newHandler(cfg handlerConfig) *handler {
	policy := httpguard.Policy{AllowedHosts: cfg.allowedHosts}.WithListener(cfg.addr)
	h := &handler{
		proxies: cfg.proxies, version: cfg.version, log: cfg.logger, metrics: httpserve.NewMetrics(cfg.metrics, "investigator"),
		config: cfg.config, registry: cfg.registry, warnings: cfg.warnings, reachable: cfg.reachable,
	}
	h.access = httpguard.Access{Token: cfg.token, Exposed: cfg.exposed, SignedIn: cfg.proxies.signedIn}
	h.Front = httpserve.New(httpserve.Config{
		Name: "the investigator", Routes: h.routes(), Policy: policy, Access: h.access, Header: protect, Explain: explain, Refuse: refuse,
		AnswerHeader: http.Header{"Cache-Control": {"no-store"}}, EndLine: true, DiscardLimit: discardLimit,
		Requests: h.metrics.Requests(), Panics: h.metrics.Panics(), Logger: cfg.logger,
	})
	return h
}

// routes returns all routes, in the order in which the answer to an unknown path lists them.
func (h *handler) routes() []httpserve.Route {
	const read, write = httpserve.ReadProof, httpserve.WriteProof
	routes := []httpserve.Route{
		{Pattern: "POST " + pathAPI + "/alerts", Answer: h.withBackend(h.submit), Proof: write},
		{Pattern: "GET " + pathAPI + "/sessions", Answer: h.json(h.list), Proof: read},
		{Pattern: "GET " + pathAPI + "/sessions/active", Answer: h.json(h.active), Proof: read},
		{Pattern: "GET " + pathAPI + "/sessions/filter-options", Answer: h.json(h.filterOptions), Proof: read},
		{Pattern: "GET " + pathAPI + "/alert-types", Answer: answerJSON(h.alertTypes), Proof: read},
		{Pattern: "GET " + pathAPI + "/runbooks", Answer: answerJSON(h.runbooks), Proof: read},
		{Pattern: "GET " + pathSession, Answer: h.json(h.show(detail)), Proof: read},
		{Pattern: "GET " + pathSession + "/summary", Answer: h.json(h.show(summary)), Proof: read},
		{Pattern: "GET " + pathSession + "/status", Answer: h.json(h.show(summary)), Proof: read},
		{Pattern: "POST " + pathSession + "/cancel", Answer: h.withBackend(h.cancel), Proof: write},
		{Pattern: "POST " + pathSession + "/retry", Answer: h.withBackend(h.retry), Proof: write},
		{Pattern: "GET " + pathSession + "/timeline", Answer: h.json(h.show(timeline, "after", "limit")), Proof: read},
		{Pattern: "GET " + pathSession + "/trace", Answer: h.json(h.show(trace)), Proof: read},
		{Pattern: "GET " + pathSession + "/trace/llm/{iid}", Answer: h.json(h.llmInteraction), Proof: read},
		{Pattern: "GET " + pathSession + "/trace/mcp/{iid}", Answer: h.json(h.mcpInteraction), Proof: read},
		{Pattern: "GET " + pathAPI + "/system/warnings", Answer: answerJSON(h.systemWarnings), Proof: read},
		{Pattern: "GET " + pathAPI + "/system/mcp-servers", Answer: answerJSON(h.mcpServers), Proof: read},
		{Pattern: "GET " + pathAPI + "/system/default-tools", Answer: answerJSON(h.defaultTools), Proof: read},
		{Pattern: "GET " + pathAPI + "/system/config", Answer: answerJSON(h.systemConfig), Proof: read},
		{Pattern: "GET " + pathAlive, Answer: httpserve.Alive},
		{Pattern: "GET " + pathReady, Answer: httpserve.Ready(h.access, httpserve.RetryAfter, func(*http.Request) error { return h.ready() })},
		{Pattern: "GET " + pathHealth, Answer: h.health},
		{Pattern: "GET " + pathMetrics, Handle: httpserve.Plain(h.metrics.Handler()), Proof: read},
	}
	for i := range routes {
		routes[i] = h.proxies.check(routes[i])
	}
	return routes
}

// protect sets the headers of every answer: it is data, and no page.
func protect(header http.Header, _ *http.Request, _ *httpserve.Route) {
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// refuse words refusals: {"error":"..."}.
func refuse(_ *http.Request, r *httpserve.Refusal) httpserve.Answer { return r.ErrorAnswer() }

// explain returns the refusal of an error of the bus.
func explain(err error) *httpserve.Refusal {
	switch {
	case errors.Is(err, bus.ErrUnreachable), errors.Is(err, bus.ErrUnacknowledged), errors.Is(err, bus.ErrClosed), errors.Is(err, bus.ErrNoAnswer), errors.Is(err, journal.ErrFull), errors.Is(err, journal.ErrBusy):
		return explainStore(err)
	}
	return httpserve.Refuse(http.StatusInternalServerError, err.Error())
}

// withBackend answers a request that needs the bus.
func (h *handler) withBackend(answer func(*http.Request, *backend) (httpserve.Answer, error)) func(*http.Request) (httpserve.Answer, error) {
	return func(r *http.Request) (httpserve.Answer, error) {
		b := h.backend.Load()
		if b == nil {
			return httpserve.Answer{}, explainStore(bus.ErrUnreachable)
		}
		return answer(r, b)
	}
}

// json is withBackend for an answer that is a value.
func (h *handler) json(answer func(*http.Request, *backend) (any, error)) func(*http.Request) (httpserve.Answer, error) {
	return h.withBackend(func(r *http.Request, b *backend) (httpserve.Answer, error) {
		value, err := answer(r, b)
		if err != nil {
			return httpserve.Answer{}, err
		}
		return httpserve.JSON(http.StatusOK, value)
	})
}

// answerJSON returns an answer that needs no bus.
func answerJSON(answer func(*http.Request) (any, error)) func(*http.Request) (httpserve.Answer, error) {
	return func(r *http.Request) (httpserve.Answer, error) {
		value, err := answer(r)
		if err != nil {
			return httpserve.Answer{}, err
		}
		return httpserve.JSON(http.StatusOK, value)
	}
}
