package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/tocsin-bus/tocsin/services/dashboard/fanout"
	"github.com/tocsin-bus/tocsin/services/dashboard/web"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// handler answers every request of the dashboard.
type handler struct {
	*httpserve.Front
	policy  httpguard.Policy
	access  httpguard.Access
	signIns *signIns
	browser Browser
	// forwarder serves the API of the investigator.
	forwarder *forwarder
	version   string
	page      *web.Page
	metrics   *metrics
	log       *slog.Logger

	// serving ends when the dashboard stops.
	serving context.Context
	hub     *fanout.Hub
	feed    *feed
	history *history
	actions *actions
	// readers has an entry for each reader, and dropped counts the alerts that slow readers
	// missed.
	readers chan struct{}
	dropped atomic.Uint64
}

func newHandler(serving context.Context, cfg Config) (*handler, error) {
	page, err := web.New()
	if err != nil {
		return nil, err
	}
	policy := httpguard.Policy{AllowedHosts: cfg.AllowedHosts}
	h := &handler{
		policy: policy.WithListener(cfg.Addr), signIns: newSignIns(), browser: cfg.Browser, version: cfg.Version,
		page: page, metrics: newMetrics(cfg.Registry), log: cfg.Logger, serving: serving, readers: make(chan struct{}, maxReaders),
	}
	h.access = httpguard.Access{Token: cfg.Token, Exposed: cfg.exposed, Proxy: cfg.Proxy, SignedIn: h.signedIn}
	h.forwarder = newForwarder(cfg, h.access)
	mask := redact.New()
	h.hub = fanout.New(cfg.backlog, func(alerts int) {
		h.metrics.dropped.Add(float64(alerts))
		h.dropped.Add(uint64(alerts))
	})
	h.browser.checkPermissions = h.checkPermissions
	h.feed = newFeed(cfg.Bus, h.hub, mask, h.metrics, cfg.Logger)
	h.history = newHistory(h.feed)
	h.actions = newActions(cfg, mask, h.ownHealth)
	h.metrics.GaugeFunc("readers", "Readers of /events/stream right now.", func() float64 { return float64(len(h.readers)) })
	front := h.access
	front.SignedIn = func(r *http.Request) bool { return h.signedIn(r) || h.forwarder.namesAuthor(r) }
	h.Front = httpserve.New(httpserve.Config{
		Name: "the dashboard", Routes: h.routes(), Policy: h.policy, Access: front, Header: h.protect, Explain: explain,
		AnswerHeader: http.Header{"Cache-Control": {"no-store"}}, EndLine: true,
		Requests: h.metrics.requests, Panics: h.metrics.panics, Logger: cfg.Logger,
	})
	return h, nil
}

// protect sets the headers of every answer. The content security policy lets the page load
// only its own files, run no inline script or style, and connect only to this address and
// the bus. It allows any port of the bus, because the bus may restart at another port while
// the page stays open. Trusted types prevent scripts from turning text into HTML.
func (h *handler) protect(header http.Header, r *http.Request, _ *httpserve.Route) {
	connect := "'self'"
	if address := h.browser.url(r); address != "" && h.policy.CheckHost(r) == nil {
		connect += " " + withAnyPort(address)
	}
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "+
		"manifest-src 'self'; connect-src "+connect+"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "+
		"require-trusted-types-for 'script'; trusted-types 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
}

// ready returns why no alerts arrive, or nil.
func (h *handler) ready(*http.Request) error {
	if err := h.feed.ready(); err != nil {
		return explain(err)
	}
	return nil
}

// ownHealth returns the health that the dashboard reports on the bus.
func (h *handler) ownHealth() query.Health {
	health := query.Health{OK: true, Dashboard: &query.DashboardHealth{Readers: len(h.readers), Dropped: h.dropped.Load()}}
	if err := h.feed.ready(); err != nil {
		health.OK, health.Reason = false, err.Error()
	}
	return health
}
