package dashboard

import (
	"net/http"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// The paths of the dashboard, without those of the page's files.
const (
	pathStream   = "/events/stream"
	pathSession  = "/api/session"
	pathSignIn   = "/api/sign-in"
	pathAlerts   = "/api/alerts"
	pathHealth   = "/api/health"
	pathStatus   = "/api/status"
	pathVitals   = "/api/vitals"
	pathEvents   = "/api/events"
	pathNoise    = "/api/noise"
	pathSilences = "/api/silences"
	pathAcks     = "/api/acks"
	pathNotices  = "/api/notices"
	pathAlive    = "/healthz"
	pathReady    = "/readyz"
	pathMetrics  = "/metrics"
	// pathInvestigation is the API of the investigator.
	pathInvestigation = "/api/v1"
)

// pageLabel is the metrics' label for all files of the page.
const pageLabel = "page"

// routes returns all routes, in the order in which the answer to an unknown path lists them.
func (h *handler) routes() []httpserve.Route {
	const read, write = httpserve.ReadProof, httpserve.WriteProof
	routes := h.pageRoutes()
	return append(routes, []httpserve.Route{
		{Pattern: "GET " + pathStream, Handle: h.stream, Proof: read},
		{Pattern: "GET " + pathSession, Answer: answerJSON(h.session), Proof: read},
		{Pattern: "POST " + pathSignIn, Answer: h.signIn},
		{Pattern: "DELETE " + pathSignIn, Answer: h.signOut},
		{Pattern: "GET " + pathAlerts, Answer: answerJSON(h.alerts), Proof: read},
		{Pattern: "GET " + pathHealth, Answer: answerJSON(h.health), Proof: read},
		{Pattern: "GET " + pathStatus, Answer: answerJSON(h.status), Proof: read},
		{Pattern: "GET " + pathVitals, Answer: answerJSON(h.vitals), Proof: read},
		{Pattern: "GET " + pathEvents, Answer: answerJSON(h.events), Proof: read},
		{Pattern: "GET " + pathNoise, Answer: answerJSON(h.noise), Proof: read},
		{Pattern: "POST " + pathNoise, Answer: answerJSON(h.changeNoise), Proof: write},
		{Pattern: "GET " + pathSilences, Answer: answerJSON(h.silences), Proof: read},
		{Pattern: "POST " + pathSilences, Answer: answerJSON(h.silence), Proof: write},
		{Pattern: "DELETE " + pathSilences + "/{id}", Answer: answerJSON(h.unsilence), Proof: write},
		{Pattern: "POST " + pathAcks, Answer: answerJSON(h.ack), Proof: write},
		{Pattern: "DELETE " + pathAcks + "/{id}", Answer: answerJSON(h.unack), Proof: write},
		{Pattern: "GET " + pathNotices, Answer: answerJSON(h.notices), Proof: read},
		{Pattern: "GET " + pathInvestigation + "/{path...}", Handle: h.forwarder.forward, Proof: read, Refuse: refuseForward},
		{Pattern: "POST " + pathInvestigation + "/{path...}", Handle: h.forwarder.forward, Proof: write, Refuse: refuseForward},
		{Pattern: "GET " + pathAlive, Answer: httpserve.Alive},
		{Pattern: "GET " + pathReady, Answer: httpserve.Ready(h.access, httpserve.RetryAfter, h.ready)},
		{Pattern: "GET " + pathMetrics, Handle: httpserve.Plain(h.metrics.page), Proof: read},
	}...)
}

// refuseForward words refusals as the investigator does.
func refuseForward(_ *http.Request, r *httpserve.Refusal) httpserve.Answer { return r.ErrorAnswer() }

// pageRoutes returns the routes of the page's files. Only the first is listed.
func (h *handler) pageRoutes() []httpserve.Route {
	routes := []httpserve.Route{{Pattern: "GET /{$}", Handle: httpserve.Plain(h.page.Find("/")), Label: pageLabel}}
	for _, path := range h.page.Paths() {
		if path != "/" {
			routes = append(routes, httpserve.Route{Pattern: "GET " + path, Handle: httpserve.Plain(h.page.Find(path)), Label: pageLabel, Unlisted: true})
		}
	}
	return routes
}
