package dashboard

import (
	"net/http"
	"slices"
	"strings"
)

// The paths of the dashboard beside the page's own.
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

	pathPage  = "page"  // every file of it, for the metrics alone
	pathOther = "other" // as above, of what there is not
)

// route is what is at a path for a method. GET stands for HEAD as well; every other
// method writes.
type route struct {
	method, path string
	// named says that one more part follows the path: what it is about.
	named bool
	// open routes need no proof of who asks, wherever that comes from.
	open bool
	// serve answers with a value, or page does by itself.
	serve func(*http.Request) (any, error)
	page  http.HandlerFunc
}

// table is every route, in the order in which they are told.
func (h *handler) table() []route {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	return []route{
		{method: get, path: pathStream, page: h.stream},
		{method: get, path: pathSession, serve: h.session},
		{method: post, path: pathSignIn, open: true, page: h.signIn},
		{method: del, path: pathSignIn, open: true, page: h.signOut},
		{method: get, path: pathAlerts, serve: h.alerts},
		{method: get, path: pathHealth, serve: h.health},
		{method: get, path: pathStatus, serve: h.status},
		{method: get, path: pathVitals, serve: h.vitals},
		{method: get, path: pathEvents, serve: h.events},
		{method: get, path: pathNoise, serve: h.noise},
		{method: post, path: pathNoise, serve: h.changeNoise},
		{method: get, path: pathSilences, serve: h.silences},
		{method: post, path: pathSilences, serve: h.silence},
		{method: del, path: pathSilences, named: true, serve: h.unsilence},
		{method: post, path: pathAcks, serve: h.ack},
		{method: del, path: pathAcks, named: true, serve: h.unack},
		{method: get, path: pathNotices, serve: h.notices},
		{method: get, path: pathAlive, open: true, serve: func(*http.Request) (any, error) { return done{true}, nil }},
		{method: get, path: pathReady, open: true, page: h.ready},
		{method: get, path: pathMetrics, page: h.metrics.page.ServeHTTP},
	}
}

// target is what is at one path.
type target struct {
	// label is the path as the metrics have it.
	label string
	// routes has one for each method.
	routes []route
	// name is the part of the path that follows it, where there is one.
	name string
}

// routes finds what is at a path.
type routes struct {
	exact, named map[string]*target
	// listed names them all.
	listed string
}

func newRoutes(table []route) routes {
	rs := routes{exact: map[string]*target{}, named: map[string]*target{}}
	listed := make([]string, 0, len(table)+1)
	listed = append(listed, "GET /")
	for _, r := range table {
		in, label := rs.exact, r.path
		if r.named {
			in, label = rs.named, r.path+"/{id}"
		}
		if in[r.path] == nil {
			in[r.path] = &target{label: label}
		}
		in[r.path].routes = append(in[r.path].routes, r)
		listed = append(listed, r.method+" "+label)
	}
	rs.listed = strings.Join(listed, ", ")
	return rs
}

// find returns what is at a path, or nil.
func (rs routes) find(path string) *target {
	if t := rs.exact[path]; t != nil {
		return t
	}
	i := strings.LastIndexByte(path, '/')
	if i < 0 || i+1 == len(path) || rs.named[path[:i]] == nil {
		return nil
	}
	t := *rs.named[path[:i]]
	t.name = path[i+1:]
	return &t
}

// of is the route of a method, or nil.
func (t *target) of(method string) *route {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range t.routes {
		if t.routes[i].method == method {
			return &t.routes[i]
		}
	}
	return nil
}

// allow lists the methods, as the header Allow has them.
func (t *target) allow() string {
	var methods []string
	for _, r := range t.routes {
		methods = append(methods, r.method)
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
