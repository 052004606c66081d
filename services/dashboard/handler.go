package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"

	"github.com/tocsin-bus/tocsin/services/dashboard/fanout"
	"github.com/tocsin-bus/tocsin/services/dashboard/web"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// handler answers every request of the dashboard.
type handler struct {
	policy  httpguard.Policy
	access  httpguard.Access
	signIns *signIns
	browser Browser
	version string
	page    *web.Page
	routes  routes
	metrics *metrics
	log     *slog.Logger

	// life ends with the dashboard.
	life    context.Context
	hub     *fanout.Hub
	feed    *feed
	history *history
	desk    *desk
	// readers has a place for each who reads along, and dropped counts what they were
	// too slow for.
	readers chan struct{}
	dropped atomic.Uint64
}

func newHandler(life context.Context, cfg Config) (*handler, error) {
	page, err := web.New()
	if err != nil {
		return nil, err
	}
	policy := httpguard.Policy{AllowedHosts: cfg.AllowedHosts}
	h := &handler{
		policy: policy.ListeningOn(cfg.Addr), signIns: newSignIns(), browser: cfg.Browser, version: cfg.Version,
		page: page, metrics: newMetrics(cfg.Registry), log: cfg.Logger, life: life, readers: make(chan struct{}, maxReaders),
	}
	h.access = httpguard.Access{Token: cfg.Token, Beyond: cfg.beyond, Proxy: cfg.Proxy, SignedIn: h.signedIn}
	mask := redact.New()
	h.hub = fanout.New(cfg.kept, func(alerts int) {
		h.metrics.dropped.Add(float64(alerts))
		h.dropped.Add(uint64(alerts))
	})
	h.browser.narrow = h.narrow
	h.feed = newFeed(cfg.Bus, h.hub, mask, h.metrics, cfg.Logger)
	h.history = newHistory(h.feed)
	h.desk = newDesk(cfg, mask, h.state)
	h.metrics.watch("readers", "Readers of /events/stream right now.", func() float64 { return float64(len(h.readers)) })
	h.routes = newRoutes(h.table())
	return h, nil
}

// ServeHTTP answers one request: first who may ask, then what was asked.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	h.protect(out.Header(), r)
	label := h.answer(out, r)
	h.metrics.answered(label, out.status)
}

// answer answers, and says what the metrics count it under.
func (h *handler) answer(w *statusWriter, r *http.Request) (label string) {
	if err := h.policy.CheckSameSite(r); err != nil {
		refuse(http.StatusForbidden, err.Error()).write(w)
		return h.label(r)
	}
	if file := h.page.Find(r.URL.Path); file != nil {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			notAllowed("GET, HEAD").write(w)
			return pathPage
		}
		file.ServeHTTP(w, r)
		return pathPage
	}
	t := h.routes.find(r.URL.Path)
	if t == nil {
		refuse(http.StatusNotFound, "not found: there are "+h.routes.listed).write(w)
		return pathOther
	}
	rt := t.of(r.Method)
	if rt == nil {
		notAllowed(t.allow()).write(w)
		return t.label
	}
	if err := h.prove(rt, r); err != nil {
		refuse(http.StatusUnauthorized, err.Error(), "WWW-Authenticate", "Bearer").write(w)
		return t.label
	}
	r.SetPathValue("id", t.name)
	h.safely(rt, w, r)
	return t.label
}

// prove returns nil where the sender of a request may have what is at a route, or why not.
func (h *handler) prove(rt *route, r *http.Request) error {
	switch {
	case rt.open:
		return nil
	case rt.method == http.MethodGet:
		return h.access.CheckRead(r)
	}
	return h.access.CheckWrite(r)
}

func notAllowed(allow string) *refusal {
	return refuse(http.StatusMethodNotAllowed, "method not allowed: allowed is "+allow, "Allow", allow)
}

// label is what the metrics count a request under that is not looked at.
func (h *handler) label(r *http.Request) string {
	if h.page.Find(r.URL.Path) != nil {
		return pathPage
	}
	if t := h.routes.find(r.URL.Path); t != nil {
		return t.label
	}
	return pathOther
}

// safely turns a bug into an answer, as far as nothing has been written yet.
func (h *handler) safely(rt *route, w *statusWriter, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			h.metrics.panics.Inc()
			h.log.Error("a request ended in a bug", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
			if !w.begun {
				refuse(http.StatusInternalServerError, "internal error: the log of the dashboard says more").write(w)
			}
		}
	}()
	if rt.page != nil {
		rt.page(w, r)
		return
	}
	value, err := rt.serve(r)
	if err != nil {
		refused(err).write(w)
		return
	}
	writeJSON(w, http.StatusOK, value)
}

// protect sets what holds for every answer. The policy lets the page load nothing
// but its own files, run no script and no style that stands in it, and talk to
// nobody but this address and the bus. The bus may come back at another port while
// the page stays open with the policy that it came with, so the port is left open.
// No script of the page makes HTML of text, and none could (trusted types).
func (h *handler) protect(header http.Header, r *http.Request) {
	connect := "'self'"
	if at := h.browser.url(r); at != "" && h.policy.CheckHost(r) == nil {
		connect += " " + wherever(at)
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

// ready answers whether alerts arrive, and why not to those who may read.
func (h *handler) ready(w http.ResponseWriter, r *http.Request) {
	switch err := h.feed.ready(); {
	case err == nil:
		writeJSON(w, http.StatusOK, done{true})
	case h.access.CheckRead(r) != nil:
		w.Header().Set("Retry-After", retryAfter)
		writeJSON(w, http.StatusServiceUnavailable, done{false})
	default:
		refused(err).write(w)
	}
}

// state is how this dashboard is, as it says itself on the bus.
func (h *handler) state() query.Health {
	said := query.Health{OK: true, Dashboard: &query.DashboardHealth{Readers: len(h.readers), Dropped: h.dropped.Load()}}
	if err := h.feed.ready(); err != nil {
		said.OK, said.Reason = false, err.Error()
	}
	return said
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
	begun  bool
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if !w.begun {
		w.status, w.begun = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
