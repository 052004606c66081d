package ingest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/ingest/otlp"
	"github.com/tocsin-bus/tocsin/services/ingest/script"
	"github.com/tocsin-bus/tocsin/services/ingest/sentry"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// The paths of ingest.
const (
	pathEvents       = "/v1/events"
	pathCIResult     = "/ci-result"
	pathJUnit        = "/v1/junit"
	pathGitHub       = "/webhooks/github"
	pathGitLab       = "/webhooks/gitlab"
	pathAlertmanager = "/webhooks/alertmanager"
	pathReports      = "/v1/reports"
	pathEnvelope     = "/api/{project}/envelope/"
	pathStore        = "/api/{project}/store/"
	pathOTLPLogs     = "/v1/logs"
	pathOTLPTraces   = "/v1/traces"
	pathOTLPMetrics  = "/v1/metrics"

	pathHealth  = "/healthz"
	pathReady   = "/readyz"
	pathMetrics = "/metrics"
	pathScript  = "/tocsin.js"
)

// sender is one kind of program that sends telemetry, CI results or alerts. To support
// another one, write a pure package that decodes its bodies, a function like those in
// sentry.go or junit.go that calls it, and one row in [handler.routes].
type sender struct {
	// path is the path of its POST requests.
	path string
	// bodies describes the bodies that it sends.
	bodies bodyFormat
	// Exactly one of events, result and alerts is set: it decodes the bodies.
	events func(*http.Request, *body) (decodedEvents, error)
	result func(*http.Request, *body) (decodedResult, error)
	alerts func(*body) (alerts []external.Alert, skipped int, err error)
	// ownProof is set if it authenticates in another way than by the bearer token, such as by
	// a signature. check or the decode function verifies that.
	ownProof bool
	// check refuses a request before its body is read. It may be nil.
	check func(*http.Request) error
	// fromPages is set if it runs in web pages: pages of allowed origins may read the answer
	// (CORS).
	fromPages bool
	// refuse returns a refusal in the format that the sender expects. If it is nil, refusals
	// are Tocsin's JSON.
	refuse func(*http.Request, *httpserve.Refusal) httpserve.Answer
}

// routes returns the routes of all senders and those for reading, in the order in which the
// answer to an unknown path lists them.
func (h *handler) routes() []httpserve.Route {
	memory := newSentryMemory(sentryMemoryBytes)
	routes := []httpserve.Route{
		// Tocsin's own formats: native.go.
		h.route(sender{path: pathEvents, bodies: nativeBodies, events: decodeNativeEvents, fromPages: true}),
		h.route(sender{path: pathCIResult, bodies: nativeBodies, result: decodeNativeResult}),
		// CI: junit.go, github.go, gitlab.go.
		h.route(sender{path: pathJUnit, bodies: junitBodies, result: decodeJUnit, check: checkJUnitQuery}),
		h.route(sender{path: pathGitHub, bodies: githubBodies, result: h.decodeGitHub, ownProof: true, check: h.checkGitHub}),
		h.route(sender{path: pathGitLab, bodies: gitlabBodies, result: h.decodeGitLab, ownProof: true, check: h.checkGitLab}),
		// Other monitoring systems: alertmanager.go.
		h.route(sender{path: pathAlertmanager, bodies: alertmanagerBodies, alerts: decodeAlertmanager, refuse: refuseAlertmanager}),
		// Reports that browsers send by themselves: browser_reports.go.
		h.route(sender{path: pathReports, bodies: browserReportBodies, events: h.decodeBrowserReports, fromPages: true}),

		{Pattern: "GET " + pathHealth, Answer: httpserve.Alive},
		{Pattern: "GET " + pathReady, Answer: httpserve.Ready(h.access, httpserve.RetryAfter, h.ready)},
		{Pattern: "GET " + pathMetrics, Handle: httpserve.Plain(h.metrics.page), Proof: httpserve.ReadProof},
		{Pattern: "GET " + pathScript, Handle: httpserve.Plain(script.Handler()), Public: true},

		// The SDKs of Sentry: sentry.go.
		h.route(sender{path: pathEnvelope, bodies: sentryBodies, events: h.decodeSentry(memory, sentry.Sender.Envelope), ownProof: true, check: h.checkSentry, fromPages: true}),
		h.route(sender{path: pathStore, bodies: sentryBodies, events: h.decodeSentry(memory, sentry.Sender.Store), ownProof: true, check: h.checkSentry, fromPages: true}),
		// OpenTelemetry: otlp.go.
		h.route(sender{path: pathOTLPLogs, bodies: otlpBodies, events: decodeOTLP(otlp.Logs), fromPages: true, refuse: refuseOTLP}),
		h.route(sender{path: pathOTLPTraces, bodies: otlpBodies, events: decodeOTLP(otlp.Traces), fromPages: true, refuse: refuseOTLP}),
		h.route(sender{path: pathOTLPMetrics, bodies: otlpBodies, events: decodeOTLP(otlp.Metrics), fromPages: true, refuse: refuseOTLP}),
	}
	for _, route := range routes { // a slash at the end of a path may be missing
		if bare, ok := strings.CutSuffix(route.Pattern, "/{$}"); ok {
			route.Pattern, route.Unlisted = bare, true
			routes = append(routes, route)
		}
	}
	return routes
}

// otlpRoutes returns the routes of the OTLP port.
func (h *handler) otlpRoutes() []httpserve.Route {
	return slices.DeleteFunc(h.routes(), func(route httpserve.Route) bool {
		_, path, _ := strings.Cut(route.Pattern, " ")
		return !slices.Contains([]string{pathOTLPLogs, pathOTLPTraces, pathOTLPMetrics, pathHealth, pathReady}, path)
	})
}

// route returns the route of a sender.
func (h *handler) route(s sender) httpserve.Route {
	route := httpserve.Route{Pattern: "POST " + s.path, Label: s.path, Proof: httpserve.TokenProof, CORS: s.fromPages, Refuse: s.refuse}
	if strings.HasSuffix(s.path, "/") {
		route.Pattern += "{$}"
	}
	if s.ownProof {
		route.Proof = httpserve.NoProof
	}
	receive := func(r *http.Request) (httpserve.Answer, error) { return h.receiveEvents(r, &s) }
	switch {
	case s.result != nil:
		receive = func(r *http.Request) (httpserve.Answer, error) { return h.receiveResult(r, &s) }
	case s.alerts != nil:
		receive = func(r *http.Request) (httpserve.Answer, error) { return h.receiveAlerts(r, &s) }
	}
	route.Answer = func(r *http.Request) (httpserve.Answer, error) {
		if s.check != nil {
			if err := s.check(r); err != nil {
				return httpserve.Answer{}, err
			}
		}
		return receive(r)
	}
	return route
}
