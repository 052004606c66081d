package ingest

import (
	"net/http"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

const (
	// corsMaxAge is how long a browser may remember a preflight, in seconds.
	corsMaxAge = "600"
	// corsHeaders are the headers that pages may send: ours, and those of browser SDKs.
	corsHeaders = "Content-Type, Authorization, Content-Encoding, X-Sentry-Auth, Sentry-Trace, Baggage, Traceparent, Tracestate"
)

// preflight answers a browser that asks whether a page may send telemetry with more than
// a simple request. The origin has been checked.
func preflight(r *http.Request, route *httpserve.Route) (httpserve.Answer, bool) {
	if route == nil || !route.CORS || r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return httpserve.Answer{}, false
	}
	answer := httpserve.Answer{Status: http.StatusNoContent, Header: http.Header{
		"Access-Control-Allow-Methods": {http.MethodPost},
		"Access-Control-Allow-Headers": {corsHeaders},
		"Access-Control-Max-Age":       {corsMaxAge},
	}}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		answer = answer.With("Access-Control-Allow-Private-Network", "true")
	}
	return answer, true
}

// allowOrigin lets a page of this machine or of a configured origin read the answer.
func (h *handler) allowOrigin(header http.Header, r *http.Request, route *httpserve.Route) {
	if route == nil || !route.CORS {
		return
	}
	switch h.policy.PageKind(r) {
	case httpguard.LoopbackPage, httpguard.ConfiguredPage:
		header.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		header.Set("Access-Control-Expose-Headers", "Retry-After")
		header.Set("Vary", "Origin")
	case httpguard.NoPage, httpguard.OwnPage, httpguard.ForeignPage:
	}
}
