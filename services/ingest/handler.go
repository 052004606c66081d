package ingest

import (
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// discardLimit is how much of the body of a refused request is read, in bytes.
const discardLimit = 8 << 20

// handler answers HTTP requests.
type handler struct {
	*httpserve.Front
	policy   httpguard.Policy
	access   httpguard.Access
	secrets  webhookSecrets
	sink     sink
	masker   Masker
	inFlight *inFlight
	metrics  *metrics
	accepted func()
	now      func() time.Time
	log      *slog.Logger
	// nativeSlots and foreignSlots bound how many bodies are decoded at once: decoding is
	// work for the processor, and takes several times the memory of the body. Foreign
	// formats have slots of their own, so that the heaviest of them delay no other.
	nativeSlots, foreignSlots chan struct{}
	// refused are the pages of other sites that were refused.
	refused *refusedOrigins
}

func newHandler(cfg Config, s sink) *handler {
	policy := httpguard.Policy{AllowedHosts: cfg.AllowedHosts, AllowedOrigins: cfg.AllowedOrigins}
	h := &handler{
		policy:       policy.WithListener(cfg.Addr).WithListener(cfg.OTLPAddr),
		access:       httpguard.Access{Token: cfg.Token, Exposed: cfg.exposed, Proxy: cfg.Proxy},
		secrets:      webhookSecrets{cfg.GitHubWebhookSecret, cfg.GitLabSecretToken, cfg.GitLabSigningToken},
		sink:         s,
		masker:       cfg.Masker,
		inFlight:     newInFlight(cfg.MaxInFlight),
		metrics:      newMetrics(cfg.Registry),
		accepted:     cfg.Accepted,
		now:          time.Now,
		log:          cfg.Logger,
		refused:      newRefusedOrigins(),
		nativeSlots:  make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
		foreignSlots: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	if h.accepted == nil {
		h.accepted = func() {}
	}
	h.Front = h.front(h.routes(), "")
	return h
}

// front makes the HTTP front of a listener.
func (h *handler) front(routes []httpserve.Route, notFound string) *httpserve.Front {
	return httpserve.New(httpserve.Config{
		Name: "ingest", Routes: routes, NotFound: notFound, Access: h.access,
		CheckSite: h.checkSite, Preflight: preflight, Header: h.allowOrigin,
		AnswerHeader: http.Header{"Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"}},
		DiscardLimit: discardLimit, Requests: h.metrics.requests, Panics: h.metrics.panics, Logger: h.log,
	})
}

// checkSite lets pages of this machine and of configured origins use a route, and notes
// those of other sites. A public route may be loaded by every page as a script: a
// browser then names no Origin.
func (h *handler) checkSite(r *http.Request, route *httpserve.Route) error {
	if err := h.policy.CheckHost(r); err != nil {
		return err
	}
	if route != nil && route.Public && len(r.Header.Values("Origin")) == 0 {
		return nil
	}
	err := h.policy.CheckTrusted(r)
	if origin := h.policy.ForeignOrigin(r); err != nil && origin != "" {
		h.refused.record(h.masker.String(origin), h.now())
	}
	return err
}

// ready returns why a write would not succeed now, or nil.
func (h *handler) ready(r *http.Request) error { return h.sink.Ready(r.Context()) }
