// Package httpserve is the HTTP front that the services share. A [Front] checks Host,
// Origin and token, finds the route, turns errors and panics into answers and counts
// them; [Listener] and [Serve] run the server, [Health] serves a service that has no
// other HTTP.
//
// It knows no service: a [Config] holds the routes and how refusals are worded. Which
// Host, Origin and token is good enough is decided by package httpguard.
package httpserve

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// Proof is what a request has to show before its route answers.
type Proof int

// The proofs.
const (
	// NoProof: every request that passes CheckSite is served, or the route checks senders.
	NoProof Proof = iota
	// ReadProof: see [httpguard.Access.CheckRead].
	ReadProof
	// WriteProof: see [httpguard.Access.CheckWrite].
	WriteProof
	// TokenProof: the bearer token, where one is set, on this machine too. See
	// [httpguard.CheckToken].
	TokenProof
)

// Route is one path with the methods that it takes.
type Route struct {
	// Pattern is "METHOD /path" or "/path" for every method, in the syntax of
	// [http.ServeMux]. GET includes HEAD. Paths are matched decoded, and a path that is
	// not clean, such as //x, matches none.
	Pattern string
	// Answer makes the whole answer. An error that is no *Refusal becomes one by
	// Config.Explain.
	Answer func(*http.Request) (Answer, error)
	// Handle writes the answer itself, where Answer is nil: files and streams. An error
	// is answered as that of Answer if nothing was written before.
	Handle func(http.ResponseWriter, *http.Request) error
	// Proof is what a request has to show.
	Proof Proof
	// Label names the route in metrics. Empty: its path.
	Label string
	// Unlisted routes are not named in answers to unknown paths.
	Unlisted bool
	// Refuse words refusals, where it is set; else Config.Refuse does.
	Refuse func(*http.Request, *Refusal) Answer

	// CORS and Public are for the functions of Config. CORS: pages of allowed origins
	// may read the answers. Public: pages of every site may load it.
	CORS, Public bool
}

// Config is what distinguishes one front from another.
type Config struct {
	// Name completes "internal error: the log of ... says more", such as "ingest".
	Name   string
	Routes []Route
	// Policy and Access decide who may send requests.
	Policy httpguard.Policy
	Access httpguard.Access
	// CheckSite returns why the Host or the Origin of a request may not use a route; it
	// is answered with 403. The route is nil for an unknown path. Nil: Policy.CheckSameSite.
	CheckSite func(*http.Request, *Route) error
	// Header sets the headers that every answer of a route has. It may be nil, as the
	// route for an unknown path is.
	Header func(http.Header, *http.Request, *Route)
	// Preflight answers a browser that asks what a page may send, or reports false. It
	// may be nil.
	Preflight func(*http.Request, *Route) (Answer, bool)
	// NotFound is the message for unknown paths. Empty: it lists the routes.
	NotFound string
	// Explain makes a refusal of an error that is none. Nil: 500 with its text.
	Explain func(error) *Refusal
	// Refuse words refusals. Nil: [Refusal.Answer].
	Refuse func(*http.Request, *Refusal) Answer
	// AnswerHeader is added to answers that the front writes, not to those of Handle.
	AnswerHeader http.Header
	// EndLine ends JSON that the front writes with a newline.
	EndLine bool
	// DiscardLimit is how many bytes of the body of a refused request are read, because
	// most clients look for an answer only once they have sent everything. A sender that
	// waits for leave to send (Expect), or announces more, is answered at once.
	DiscardLimit int64
	// Requests counts answers by path and code, Panics requests that ended in a panic.
	// They may be nil.
	Requests *prometheus.CounterVec
	Panics   prometheus.Counter
	Logger   *slog.Logger
}

// Front answers the requests of a listener.
type Front struct {
	cfg Config
	mux *http.ServeMux
	// listed are the routes that are not Unlisted, as "METHOD /path" or "/path".
	listed []string
	// notFound answers paths without a route.
	notFound *endpoint
}

// New makes a front. It panics if two routes conflict, or if a pattern ends in "/":
// [http.ServeMux] redirects to such a path before anything is checked. A pattern that ends in
// "/{name...}" matches the paths below, and not the one without the slash.
func New(cfg Config) *Front {
	if cfg.CheckSite == nil {
		cfg.CheckSite = func(r *http.Request, _ *Route) error { return cfg.Policy.CheckSameSite(r) }
	}
	if cfg.Refuse == nil {
		cfg.Refuse = func(_ *http.Request, refusal *Refusal) Answer { return refusal.Answer() }
	}
	if cfg.Explain == nil {
		cfg.Explain = func(err error) *Refusal { return Refuse(http.StatusInternalServerError, err.Error()) }
	}
	f := &Front{cfg: cfg, mux: http.NewServeMux()}
	f.notFound = &endpoint{front: f, label: "other"}
	f.mux.Handle("/", f.notFound)
	endpoints := map[string]*endpoint{}
	for i := range cfg.Routes {
		route := &cfg.Routes[i]
		method, pattern, ok := strings.Cut(route.Pattern, " ")
		if !ok {
			method, pattern = "", route.Pattern
		}
		if strings.HasSuffix(pattern, "/") {
			panic("httpserve: the pattern " + route.Pattern + " matches a subtree")
		}
		shown := strings.TrimSuffix(pattern, "{$}")
		if !route.Unlisted {
			f.listed = append(f.listed, strings.TrimLeft(method+" "+shown, " "))
		}
		e := endpoints[pattern]
		if e == nil {
			e = &endpoint{front: f, label: shown}
			endpoints[pattern] = e
			f.mux.Handle(pattern, e)
		}
		if route.Label != "" {
			e.label = route.Label
		}
		e.add(method, route)
	}
	for _, pattern := range slices.Collect(maps.Keys(endpoints)) { // without this, ServeMux would redirect to add the slash
		if bare := bareOf(pattern); bare != "" && endpoints[bare] == nil {
			endpoints[bare] = f.notFound
			f.mux.Handle(bare, f.notFound)
		}
	}
	if f.cfg.NotFound == "" {
		f.cfg.NotFound = "not found; the endpoints are: " + strings.Join(f.listed, ", ")
	}
	return f
}

// bareOf returns the path to which ServeMux would add a slash for a pattern, or nothing.
func bareOf(pattern string) string {
	if bare, ok := strings.CutSuffix(pattern, "/{$}"); ok {
		return bare
	}
	if i := strings.LastIndex(pattern, "/{"); i >= 0 && strings.HasSuffix(pattern, "...}") {
		return pattern[:i]
	}
	return ""
}

// Routes returns the routes that are not Unlisted, as "METHOD /path" or "/path".
func (f *Front) Routes() []string { return slices.Clone(f.listed) }

// ServeHTTP answers one request.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawPath != "" { // ServeMux would match what is encoded
		decoded := *r.URL
		decoded.RawPath = ""
		r = r.WithContext(r.Context())
		r.URL = &decoded
	}
	if !isCleanPath(r.URL.Path) { // ServeMux would redirect
		f.notFound.ServeHTTP(w, r)
		return
	}
	f.mux.ServeHTTP(w, r)
}

// isCleanPath reports whether a path is absolute and has no empty, "." or ".." element. It may
// end in a slash.
func isCleanPath(p string) bool {
	if p == "/" {
		return true
	}
	p = strings.TrimSuffix(p, "/")
	return len(p) > 1 && p[0] == '/' && path.Clean(p) == p
}

// endpoint is the routes of one path.
type endpoint struct {
	front  *Front
	label  string
	routes map[string]*Route // by method; "" is every method
	allow  string
}

func (e *endpoint) add(method string, route *Route) {
	if e.routes == nil {
		e.routes = map[string]*Route{}
	}
	e.routes[method] = route
	if method == http.MethodGet {
		e.routes[http.MethodHead] = route
	}
	methods := make([]string, 0, len(e.routes))
	for m := range e.routes {
		methods = append(methods, m)
	}
	slices.Sort(methods)
	e.allow = strings.Join(methods, ", ")
}

// find returns the route of a method, or nil.
func (e *endpoint) find(method string) *Route {
	if route := e.routes[method]; route != nil {
		return route
	}
	return e.routes[""]
}

// routeFor returns the route of the method, else one that stands for the whole path, or nil.
func (e *endpoint) routeFor(method string) *Route {
	if route := e.find(method); route != nil || e.allow == "" {
		return route
	}
	first, _, _ := strings.Cut(e.allow, ", ")
	return e.routes[first]
}

// ServeHTTP answers one request to a path: it is found, and nothing of it was checked.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Pattern = e.label
	out := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	if counter := e.front.cfg.Requests; counter != nil {
		defer func() { counter.WithLabelValues(e.label, strconv.Itoa(out.status)).Inc() }() // also if the answer is aborted
	}
	e.front.answer(out, r, e)
}

// answer answers with what the route has, or with a refusal.
func (f *Front) answer(w *statusWriter, r *http.Request, e *endpoint) {
	route := e.routeFor(r.Method)
	if f.cfg.Header != nil {
		f.cfg.Header(w.Header(), r, route)
	}
	if err := f.cfg.CheckSite(r, route); err != nil {
		f.refuse(w, r, route, Refuse(http.StatusForbidden, err.Error()))
		return
	}
	if f.cfg.Preflight != nil {
		if answer, ok := f.cfg.Preflight(r, route); ok {
			f.write(w, answer)
			return
		}
	}
	if err := f.admit(r, e); err != nil {
		f.refuse(w, r, route, err)
		return
	}
	answer, err := f.serve(w, r, route)
	switch {
	case err != nil && !w.written:
		f.refuse(w, r, route, err)
	case err != nil:
		f.cfg.Logger.Debug("an answer broke off", "path", r.URL.Path, "error", err)
	case route.Answer != nil:
		f.write(w, answer)
	}
}

// admit returns why a path and method may not be asked for, or nil.
func (f *Front) admit(r *http.Request, e *endpoint) error {
	if e.routes == nil {
		return Refuse(http.StatusNotFound, f.cfg.NotFound)
	}
	route := e.find(r.Method)
	if route == nil {
		return Refuse(http.StatusMethodNotAllowed, "method not allowed: allowed is "+e.allow).With("Allow", e.allow)
	}
	var err error
	switch route.Proof {
	case ReadProof:
		err = f.cfg.Access.CheckRead(r)
	case WriteProof:
		err = f.cfg.Access.CheckWrite(r)
	case TokenProof:
		err = httpguard.CheckToken(r, f.cfg.Access.Token)
	case NoProof:
	}
	if err != nil {
		return Unauthorized(err.Error())
	}
	return nil
}

// serve runs the route, and turns a panic into an error. If a part of the answer was already
// written, it closes the connection, because the part must not look like the whole. As in
// net/http, panicking with [http.ErrAbortHandler] also closes the connection.
func (f *Front) serve(w *statusWriter, r *http.Request, route *Route) (answer Answer, err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler { //nolint:errorlint // panic with this very value is what net/http defines
			panic(v)
		}
		if f.cfg.Panics != nil {
			f.cfg.Panics.Inc()
		}
		f.cfg.Logger.Error("panic while answering a request", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
		if w.written {
			panic(http.ErrAbortHandler)
		}
		err = Refuse(http.StatusInternalServerError, "internal error: the log of "+f.cfg.Name+" says more")
	}()
	if route.Answer != nil {
		return route.Answer(r)
	}
	return Answer{}, route.Handle(w, r)
}

// refuse answers with an error.
func (f *Front) refuse(w http.ResponseWriter, r *http.Request, route *Route, err error) {
	refusal := AsRefusal(err)
	if refusal == nil {
		refusal = f.cfg.Explain(err)
	}
	word := f.cfg.Refuse
	if route != nil && route.Refuse != nil {
		word = route.Refuse
	}
	answer := word(r, refusal)
	f.discard(r)
	f.write(w, answer)
}

// discard reads what is left of the body of a refused request.
func (f *Front) discard(r *http.Request) {
	limit := f.cfg.DiscardLimit
	if limit == 0 || r.Header.Get("Expect") != "" || r.ContentLength > limit {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, limit) // the request is refused either way
}

func (f *Front) write(w http.ResponseWriter, answer Answer) {
	for name, values := range f.cfg.AnswerHeader {
		w.Header()[name] = values
	}
	if f.cfg.EndLine && answer.Body != nil {
		answer.Body = append(slices.Clip(answer.Body), '\n')
	}
	answer.Write(w)
}

// statusWriter records the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status  int
	written bool
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if !w.written {
		w.status, w.written = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(p []byte) (int, error) {
	w.written = true
	return w.ResponseWriter.Write(p)
}

// FlushError sends what was written, with the header if that was not yet sent. It is for
// [http.ResponseController].
func (w *statusWriter) FlushError() error {
	w.written = true
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		return fmt.Errorf("send the written part of an answer: %w", err)
	}
	return nil
}

// Unwrap lets [http.ResponseController] reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
