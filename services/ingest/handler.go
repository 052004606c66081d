package ingest

import (
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// handler answers every request of the intake.
type handler struct {
	policy   httpguard.Policy
	access   httpguard.Access
	hooks    hooks
	sink     sink
	masker   Masker
	load     *load
	metrics  *metrics
	accepted func()
	now      func() time.Time
	log      *slog.Logger
	// ours and theirs bound how many bodies are decoded at once: decoding is work for
	// the processor, and takes several times the memory of the body.
	// Foreign formats have places of their own: the heaviest of their bodies must
	// not hold up ours.
	ours, theirs chan struct{}
	routes       routes
	// origins are the pages of other sites that were refused.
	origins *refusedOrigins
}

func newHandler(cfg Config, s sink) *handler {
	policy := httpguard.Policy{AllowedHosts: cfg.AllowedHosts, AllowedOrigins: cfg.AllowedOrigins}
	h := &handler{
		policy:   policy.ListeningOn(cfg.Addr).ListeningOn(cfg.OTLPAddr),
		access:   httpguard.Access{Token: cfg.Token, Beyond: cfg.beyond, Proxy: cfg.Proxy},
		hooks:    hooks{cfg.GitHubWebhookSecret, cfg.GitLabSecretToken, cfg.GitLabSigningToken},
		sink:     s,
		masker:   cfg.Masker,
		load:     newLoad(cfg.MaxInFlight),
		metrics:  newMetrics(cfg.Registry),
		accepted: cfg.Accepted,
		now:      time.Now,
		log:      cfg.Logger,
		origins:  newRefusedOrigins(),
		ours:     make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
		theirs:   make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	if h.accepted == nil {
		h.accepted = func() {}
	}
	h.routes = newRoutes(h.table())
	return h
}

// ServeHTTP answers one request: first who may ask, then what was asked.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, path := h.routes.find(r), pathOther
	if target != nil {
		path = target.path
	}
	r.Pattern = path
	answer, done := h.admit(r, target)
	switch {
	case done:
	case target.page != nil:
		page := &pageWriter{ResponseWriter: w, status: http.StatusOK}
		target.page.ServeHTTP(page, r)
		h.metrics.answered(path, page.status)
		return
	default:
		answer = h.safely(target, r)
	}
	if target != nil && target.pages {
		h.allowOrigin(w.Header(), r)
	}
	if target != nil && target.phrase != nil && answer.status >= http.StatusBadRequest {
		answer = target.phrase(r, answer)
	}
	if answer.status >= http.StatusBadRequest {
		drain(r)
	}
	answer.write(w)
	h.metrics.answered(path, answer.status)
}

// pageWriter notes the status that a page answers with.
type pageWriter struct {
	http.ResponseWriter
	status int
}

func (w *pageWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// admit decides all that doesn't need the body. It reports false where the
// request may go on.
func (h *handler) admit(r *http.Request, target *route) (answer reply, done bool) {
	if err := h.policy.CheckHost(r); err != nil {
		return refuse(http.StatusForbidden, err.Error()), true
	}
	if err := target.mayJoin(h.policy, r); err != nil {
		if origin := h.policy.ForeignOrigin(r); origin != "" {
			h.origins.note(h.masker.String(origin), h.now())
		}
		return refuse(http.StatusForbidden, err.Error()), true
	}
	if target != nil && target.pages && isPreflight(r) {
		return preflight(r), true
	}
	if target == nil {
		return refuse(http.StatusNotFound, "not found: there are "+h.routes.listed), true
	}
	if allow, ok := target.allows(r.Method); !ok {
		return refuse(http.StatusMethodNotAllowed, "method not allowed: allowed is "+allow).with("Allow", allow), true
	}
	var err error
	switch {
	case target.method == http.MethodPost && !target.ownProof:
		err = h.authorized(r)
	case target.private:
		err = h.access.CheckRead(r)
	}
	if err != nil {
		return unproven(err.Error()).with("WWW-Authenticate", "Bearer"), true
	}
	return reply{}, false
}

// authorized returns nil where a request has the token, if there is one, or why it may
// not write.
func (h *handler) authorized(r *http.Request) error { return httpguard.CheckToken(r, h.access.Token) }

// unproven refuses what does not prove where it comes from.
func unproven(why string) reply { return refuse(http.StatusUnauthorized, why) }

// safely turns a bug into an answer. Nothing has been written yet.
func (h *handler) safely(target *route, r *http.Request) (answer reply) {
	defer func() {
		if v := recover(); v != nil {
			h.metrics.panics.Inc()
			h.log.Error("a request ended in a bug", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
			answer = refuse(http.StatusInternalServerError, "internal error: the log of the intake says more")
		}
	}()
	return target.serve(r)
}

func (h *handler) ready(r *http.Request) reply {
	if err := h.sink.Ready(r.Context()); err != nil {
		if h.access.CheckRead(r) != nil {
			return reply{status: http.StatusServiceUnavailable, body: []byte(`{"ok":false}`)}.with("Retry-After", retryAfter)
		}
		return refuse(http.StatusServiceUnavailable, err.Error()).with("Retry-After", retryAfter)
	}
	return okReply()
}
