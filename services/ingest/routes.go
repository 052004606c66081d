package ingest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/ingest/script"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// The paths of the intake.
const (
	pathEvents   = "/v1/events"
	pathCIResult = "/ci-result"
	pathHealth   = "/healthz"
	pathReady    = "/readyz"
	pathMetrics  = "/metrics"
	pathScript   = "/tocsin.js"

	pathOTLPLogs    = "/v1/logs"
	pathOTLPTraces  = "/v1/traces"
	pathOTLPMetrics = "/v1/metrics"

	pathOther = "other" // for the metrics alone
)

// route is what is at a path.
type route struct {
	// path may have {project} as its second part, which then stands for any.
	path   string
	method string // GET stands for HEAD as well
	// serve answers, or page does by itself.
	serve func(*http.Request) reply
	page  http.Handler
	// pages reports whether pages that may send here also read the answer (CORS), of
	// POST.
	pages bool
	// public routes may be loaded by pages of every site, as a script: a browser then
	// names no Origin.
	public bool
	// private routes are read by those alone who prove themselves, where a
	// request comes from beyond loopback.
	private bool
	// ownProof says that senders prove themselves in another way than by the
	// bearer token, and that serve looks at it.
	ownProof bool
	// phrase turns our refusal into the form that senders expect.
	phrase func(*http.Request, reply) reply
}

// table is every route, in the order in which they are told.
func (h *handler) table() []route {
	table := []route{
		{path: pathEvents, method: http.MethodPost, serve: h.events, pages: true},
		{path: pathCIResult, method: http.MethodPost, serve: h.ciResult},
		{path: pathJUnit, method: http.MethodPost, serve: h.junit},
		{path: pathGitHub, method: http.MethodPost, serve: h.github, ownProof: true},
		{path: pathGitLab, method: http.MethodPost, serve: h.gitlab, ownProof: true},
		h.alertmanagerRoute(),
		h.reportRoute(),
		{path: pathHealth, method: http.MethodGet, serve: func(*http.Request) reply { return okReply() }},
		{path: pathReady, method: http.MethodGet, serve: h.ready},
		{path: pathMetrics, method: http.MethodGet, page: h.metrics.page, private: true},
		{path: pathScript, method: http.MethodGet, page: script.Handler(), public: true},
	}
	table = append(table, h.sentryRoutes()...)
	return append(table, h.otlpRoutes()...)
}

// routes finds the route of a path.
type routes struct {
	byPath map[string]*route
	// listed names them all.
	listed string
}

func newRoutes(table []route) routes {
	rs := routes{byPath: make(map[string]*route, len(table))}
	named := make([]string, 0, len(table))
	for i := range table {
		rs.byPath[table[i].path] = &table[i]
		named = append(named, table[i].method+" "+table[i].path)
	}
	rs.listed = strings.Join(named, ", ")
	return rs
}

// projectMark stands in a route's path for the name of a project.
const projectMark = "{project}"

// find returns the route of a request, or nil. A slash at the end of a project's
// path may be missing.
func (rs routes) find(r *http.Request) *route {
	if known := rs.byPath[r.URL.Path]; known != nil && !strings.Contains(known.path, projectMark) {
		return known
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/")
	if !ok {
		return nil
	}
	project, rest, ok := strings.Cut(rest, "/")
	if !ok || project == "" {
		return nil
	}
	known := rs.byPath["/api/"+projectMark+"/"+strings.TrimSuffix(rest, "/")+"/"]
	if known != nil {
		r.SetPathValue("project", project)
	}
	return known
}

// mayJoin returns why the page behind a request may have no part in it, or nil. Those
// of this machine and of configured origins may. The Host has been checked.
func (rt *route) mayJoin(policy httpguard.Policy, r *http.Request) error {
	if rt != nil && rt.public && len(r.Header.Values("Origin")) == 0 {
		return nil
	}
	return policy.CheckTrusted(r)
}

// allows says whether a method is the route's, and which are.
func (rt *route) allows(method string) (string, bool) {
	if rt.method == http.MethodGet {
		return "GET, HEAD", slices.Contains([]string{http.MethodGet, http.MethodHead}, method)
	}
	return rt.method, method == rt.method
}
