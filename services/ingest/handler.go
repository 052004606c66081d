package ingest

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// The paths of the intake.
const (
	pathEvents   = "/v1/events"
	pathCIResult = "/ci-result"
	pathHealth   = "/healthz"
	pathReady    = "/readyz"
	pathMetrics  = "/metrics"
	pathOther    = "other" // for the metrics alone
)

// handler answers every request of the intake.
type handler struct {
	policy   httpguard.Policy
	token    string
	sink     sink
	masker   Masker
	load     *load
	metrics  *metrics
	accepted func()
	now      func() time.Time
	log      *slog.Logger
	// working bounds how many bodies are decoded at once: decoding is work for
	// the processor, and takes several times the memory of the body.
	working chan struct{}
	routes  map[string]route
}

type route struct {
	method string // GET stands for HEAD as well
	serve  func(*http.Request) reply
	// page answers by itself, instead of serve.
	page http.Handler
}

func newHandler(cfg Config, s sink) *handler {
	h := &handler{
		policy:   httpguard.Policy{AllowedHosts: cfg.AllowedHosts, AllowedOrigins: cfg.AllowedOrigins}.ListeningOn(cfg.Addr),
		token:    cfg.Token,
		sink:     s,
		masker:   cfg.Masker,
		load:     newLoad(cfg.MaxInFlight),
		metrics:  newMetrics(cfg.Registry),
		accepted: cfg.Accepted,
		now:      time.Now,
		log:      cfg.Logger,
		working:  make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
	}
	if h.accepted == nil {
		h.accepted = func() {}
	}
	h.routes = map[string]route{
		pathEvents:   {method: http.MethodPost, serve: h.events},
		pathCIResult: {method: http.MethodPost, serve: h.ciResult},
		pathHealth:   {method: http.MethodGet, serve: func(*http.Request) reply { return okReply() }},
		pathReady:    {method: http.MethodGet, serve: h.ready},
		pathMetrics:  {method: http.MethodGet, page: h.metrics.page},
	}
	return h
}

// ServeHTTP answers one request: first who may ask, then what was asked.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := pathOther
	target, found := h.routes[r.URL.Path]
	if found {
		path = r.URL.Path
	}
	answer, done := h.admit(r, target, found)
	switch {
	case done:
	case target.page != nil:
		target.page.ServeHTTP(w, r)
		h.metrics.answered(path, http.StatusOK)
		return
	default:
		answer = h.safely(target, r)
	}
	if path == pathEvents {
		h.allowOrigin(w.Header(), r)
	}
	answer.write(w)
	h.metrics.answered(path, answer.status)
}

// admit decides all that doesn't need the body. It reports false where the
// request may go on.
func (h *handler) admit(r *http.Request, target route, found bool) (answer reply, done bool) {
	if err := h.policy.CheckHost(r); err != nil {
		return refuse(http.StatusForbidden, err.Error()), true
	}
	events := r.URL.Path == pathEvents
	if events && r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		return h.preflight(r), true
	}
	// Pages of any site may send telemetry: a server can't tell them from a
	// program that claims to be one. They may not read the answer.
	if !events || r.Method != http.MethodPost {
		if err := h.policy.CheckSameSite(r); err != nil {
			return refuse(http.StatusForbidden, err.Error()), true
		}
	}
	switch {
	case !found:
		return refuse(http.StatusNotFound, "not found: POST "+pathEvents+", POST "+pathCIResult+", GET "+
			pathHealth+", GET "+pathReady+" and GET "+pathMetrics+" are there"), true
	case r.Method != target.method && (target.method != http.MethodGet || r.Method != http.MethodHead):
		allow := target.method
		if allow == http.MethodGet {
			allow = "GET, HEAD"
		}
		return refuse(http.StatusMethodNotAllowed, "method not allowed: allowed is "+allow).with("Allow", allow), true
	case target.method == http.MethodPost && !h.authorized(r):
		return refuse(http.StatusUnauthorized, "a token is required: send Authorization: Bearer with the value of TOCSIN_TOKEN").
			with("WWW-Authenticate", "Bearer"), true
	}
	return reply{}, false
}

// authorized compares hashes, so that neither the time nor the length tells
// anything of the token.
func (h *handler) authorized(r *http.Request) bool {
	if h.token == "" {
		return true
	}
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, have := sha256.Sum256([]byte(h.token)), sha256.Sum256([]byte(strings.TrimSpace(got)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], have[:]) == 1
}

// corsMaxAge is how long a browser may remember a preflight, in seconds.
const corsMaxAge = 600

// preflight answers a browser that asks whether a page may send telemetry with
// a content type or a token.
func (h *handler) preflight(r *http.Request) reply {
	if !h.policy.Origin(r).Trusted() {
		return refuse(http.StatusForbidden, "this origin is not allowed to send more than simple requests: allowed are pages of this machine and those in TOCSIN_ALLOWED_ORIGINS")
	}
	a := reply{status: http.StatusNoContent}.
		with("Access-Control-Allow-Methods", http.MethodPost).
		with("Access-Control-Allow-Headers", "Content-Type, Authorization").
		with("Access-Control-Max-Age", strconv.Itoa(corsMaxAge))
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		a = a.with("Access-Control-Allow-Private-Network", "true")
	}
	return a
}

// allowOrigin lets a page of this machine or of a configured origin read the
// answer.
func (h *handler) allowOrigin(header http.Header, r *http.Request) {
	switch h.policy.Origin(r) {
	case httpguard.LoopbackOrigin, httpguard.Configured:
		header.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		header.Set("Access-Control-Expose-Headers", "Retry-After")
		header.Set("Vary", "Origin")
	case httpguard.None, httpguard.Own, httpguard.Foreign:
	}
}

// safely turns a bug into an answer. Nothing has been written yet.
func (h *handler) safely(target route, r *http.Request) (answer reply) {
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
		return refuse(http.StatusServiceUnavailable, err.Error()).with("Retry-After", retryAfter)
	}
	return okReply()
}
