package ingest

import (
	"net/http"
	"strconv"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

const (
	// corsMaxAge is how long a browser may remember a preflight, in seconds.
	corsMaxAge = 600
	// corsHeaders are the headers with which pages may send: those of the SDKs
	// for browsers beside our own.
	corsHeaders = "Content-Type, Authorization, Content-Encoding, X-Sentry-Auth, Sentry-Trace, Baggage, Traceparent, Tracestate"
)

// isPreflight says whether a browser asks what a page may.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight answers a browser that asks whether a page may send telemetry with
// more than a simple request. Its origin has been checked.
func preflight(r *http.Request) reply {
	a := reply{status: http.StatusNoContent}.
		with("Access-Control-Allow-Methods", http.MethodPost).
		with("Access-Control-Allow-Headers", corsHeaders).
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
