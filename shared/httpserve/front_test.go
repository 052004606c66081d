package httpserve_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// text answers with a text that names the route, and the path value id.
func text(name string) func(*http.Request) (httpserve.Answer, error) {
	return func(r *http.Request) (httpserve.Answer, error) {
		return httpserve.JSON(http.StatusOK, name+" "+r.PathValue("id"))
	}
}

func testConfig() httpserve.Config {
	return httpserve.Config{
		Name:   "the test",
		Access: httpguard.Access{Token: "secret"},
		Logger: slog.New(slog.DiscardHandler),
		Routes: []httpserve.Route{
			{Pattern: "GET /things", Answer: text("list")},
			{Pattern: "POST /things", Answer: text("create"), Proof: httpserve.WriteProof},
			{Pattern: "DELETE /things/{id}", Answer: text("delete"), Proof: httpserve.TokenProof},
			{Pattern: "POST /folder/{$}", Answer: text("folder")},
			{Pattern: "GET /tree/{id...}", Answer: text("tree")},
			{Pattern: "/any", Answer: text("any")},
			{Pattern: "GET /hidden", Answer: text("hidden"), Unlisted: true, Label: "page"},
			{Pattern: "GET /read", Answer: text("read"), Proof: httpserve.ReadProof},
			{Pattern: "GET /panic", Answer: func(*http.Request) (httpserve.Answer, error) { panic("a bug") }},
			{Pattern: "GET /late-panic", Handle: func(w http.ResponseWriter, _ *http.Request) error {
				_, _ = io.WriteString(w, "begun")
				panic("a bug")
			}},
			{Pattern: "GET /error", Answer: func(*http.Request) (httpserve.Answer, error) {
				return httpserve.Answer{}, errors.New("no\u202e such thing")
			}},
			{Pattern: "GET /refused", Handle: func(http.ResponseWriter, *http.Request) error {
				return fmt.Errorf("wrapped: %w", httpserve.Refuse(http.StatusConflict, "taken").Retry(5).At(3))
			}},
		},
	}
}

func send(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestFrontRoutes(t *testing.T) {
	const token = "Bearer secret"
	const listed = `{"ok":false,"error":"not found; the endpoints are: GET /things, POST /things, DELETE /things/{id}, POST /folder/, GET /tree/{id...}, /any, GET /read, GET /panic, GET /late-panic, GET /error, GET /refused"}`
	front := httpserve.New(testConfig())
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
		body         string
	}{
		{"GET", "/things", nil, 200, `"list "`},
		{"HEAD", "/things", nil, 200, `"list "`}, // net/http leaves out the body
		{"GET", "/things?x=y", nil, 200, `"list "`},
		{"GET", "/%74hings", nil, 200, `"list "`},
		{"GET", "/any", nil, 200, `"any "`},
		{"PATCH", "/any", nil, 200, `"any "`},
		{"GET", "/hidden", nil, 200, `"hidden "`},
		{"POST", "/folder/", nil, 200, `"folder "`},
		{"POST", "/folder", nil, 404, listed},
		{"POST", "/folder/x", nil, 404, listed},
		{"GET", "/tree/a", nil, 200, `"tree a"`},
		{"GET", "/tree/a/b/", nil, 200, `"tree a/b/"`},
		{"GET", "/tree/", nil, 200, `"tree "`},
		{"GET", "/tree", nil, 404, listed},
		{"GET", "/tree/a/../../things", nil, 404, listed},
		{"GET", "/tree/%2e%2e/things", nil, 404, listed},
		{"GET", "/tree//a", nil, 404, listed},
		{"GET", "/things/", nil, 404, listed},
		{"DELETE", "/things/", nil, 404, listed},
		{"DELETE", "/things/a%2Fb", []string{"Authorization", token}, 404, listed},
		{"GET", "//things", nil, 404, listed},
		{"GET", "/./things", nil, 404, listed},
		{"GET", "/x/../things", nil, 404, listed},
		{"PUT", "/things", nil, 405, `{"ok":false,"error":"method not allowed: allowed is GET, HEAD, POST"}`},
		{"GET", "/things/1", nil, 405, `{"ok":false,"error":"method not allowed: allowed is DELETE"}`},
		{"POST", "/things", nil, 401, `{"ok":false,"error":"a token is required: send Authorization: Bearer with the value of TOCSIN_TOKEN"}`},
		{"POST", "/things", []string{"Authorization", token}, 200, `"create "`},
		{"DELETE", "/things/7", []string{"Authorization", "Bearer x"}, 401, `{"ok":false,"error":"the token is not valid"}`},
		{"DELETE", "/things/a%20b", []string{"Authorization", token}, 200, `"delete a b"`},
		{"GET", "/read", nil, 200, `"read "`}, // from this machine
		{"GET", "/things", []string{"Host", "evil.example"}, 403, `{"ok":false,"error":"host \"evil.example\" is not allowed: only loopback names, such as localhost and 127.0.0.1, and those in TOCSIN_ALLOWED_HOSTS are"}`},
		{"PUT", "/nothing", []string{"Origin", "https://evil.example"}, 403, `{"ok":false,"error":"origin \"https://evil.example\" is not allowed: only pages of this address may send requests"}`},
		{"GET", "/panic", nil, 500, `{"ok":false,"error":"internal error: the log of the test says more"}`},
		{"GET", "/error", nil, 500, `{"ok":false,"error":"no such thing"}`},
		{"GET", "/refused", nil, 409, `{"ok":false,"error":"taken","index":3}`},
	} {
		w := send(front, c.method, c.path, c.header...)
		if w.Code != c.status || w.Body.String() != c.body {
			t.Errorf("%s %s %q:\ngot  %d %s\nwant %d %s", c.method, c.path, c.header, w.Code, w.Body, c.status, c.body)
		}
	}
	for _, path := range []string{"*", ""} { // OPTIONS * and CONNECT
		r := httptest.NewRequest(http.MethodOptions, "http://127.0.0.1/", http.NoBody)
		r.RequestURI, r.URL.Path = "*", path
		w := httptest.NewRecorder()
		if front.ServeHTTP(w, r); w.Code != 404 {
			t.Errorf("path %q: status %d, want 404", path, w.Code)
		}
	}
}

func TestFrontHeaders(t *testing.T) {
	cfg := testConfig()
	cfg.AnswerHeader = http.Header{"Cache-Control": {"no-store"}}
	cfg.EndLine = true
	cfg.Header = func(h http.Header, _ *http.Request, route *httpserve.Route) {
		h.Set("X-Route", "none")
		if route != nil {
			h.Set("X-Route", route.Pattern)
		}
	}
	front := httpserve.New(cfg)
	for path, want := range map[string]http.Header{
		"/things": {"X-Route": {"GET /things"}, "Cache-Control": {"no-store"}, "Content-Type": {"application/json"}, "Content-Length": {"8"}},
		"/refused": {
			"X-Route": {"GET /refused"}, "Cache-Control": {"no-store"}, "Content-Type": {"application/json"}, "Content-Length": {"39"}, "Retry-After": {"5"},
		},
	} {
		if diff := cmp.Diff(want, send(front, "GET", path).Header()); diff != "" {
			t.Errorf("header of %s (-want +got):\n%s", path, diff)
		}
	}
	if got := send(front, "PUT", "/things").Header(); got.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("Allow = %q, want %q", got.Get("Allow"), "GET, HEAD, POST")
	}
	if got := send(front, "POST", "/things").Header().Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("WWW-Authenticate = %q, want Bearer", got)
	}
	if got := send(front, "GET", "/things").Body.String(); !strings.HasSuffix(got, "\n") {
		t.Errorf("body = %q, want a newline at its end", got)
	}
}

func TestFrontHooks(t *testing.T) {
	cfg := testConfig()
	cfg.CheckSite = func(_ *http.Request, route *httpserve.Route) error {
		if route == nil {
			return errors.New("unknown paths are closed")
		}
		return nil
	}
	cfg.Preflight = func(r *http.Request, _ *httpserve.Route) (httpserve.Answer, bool) {
		return httpserve.Answer{Status: http.StatusNoContent}, r.Method == http.MethodOptions
	}
	cfg.Explain = func(err error) *httpserve.Refusal {
		return httpserve.Refuse(http.StatusServiceUnavailable, err.Error())
	}
	cfg.Refuse = func(_ *http.Request, refusal *httpserve.Refusal) httpserve.Answer {
		return refusal.Wrap([]byte(refusal.Text())).With("Content-Type", "text/plain")
	}
	cfg.Routes = append(cfg.Routes, httpserve.Route{
		Pattern: "GET /own", Answer: cfg.Routes[len(cfg.Routes)-2].Answer,
		Refuse: func(_ *http.Request, refusal *httpserve.Refusal) httpserve.Answer {
			return refusal.Wrap([]byte("own: "+refusal.Text())).With("Content-Type", "text/plain")
		},
	})
	front := httpserve.New(cfg)
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/nothing", 403, "unknown paths are closed"},
		{"OPTIONS", "/things", 204, ""},
		{"GET", "/error", 503, "no such thing"},
		{"GET", "/own", 503, "own: no such thing"},
		{"PUT", "/own", 405, "own: method not allowed: allowed is GET, HEAD"},
	} {
		w := send(front, c.method, c.path)
		if w.Code != c.status || w.Body.String() != c.body {
			t.Errorf("%s %s: got %d %s, want %d %s", c.method, c.path, w.Code, w.Body, c.status, c.body)
		}
	}
}

func TestFrontCounts(t *testing.T) {
	var log bytes.Buffer
	cfg := testConfig()
	registry := prometheus.NewRegistry()
	m := httpserve.NewMetrics(registry, "test")
	cfg.Requests, cfg.Panics, cfg.Logger = m.Requests(), m.Panics(), slog.New(slog.NewTextHandler(&log, nil))
	front := httpserve.New(cfg)
	for _, path := range []string{"/things", "/things/1", "/hidden", "/nothing", "//", "/panic"} {
		send(front, "GET", path)
	}
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // net/http compares the value
				t.Errorf("panic after the first byte = %v, want %v", v, http.ErrAbortHandler)
			}
		}()
		send(front, "GET", "/late-panic")
	}()
	const want = `
# HELP tocsin_test_panics_total Requests that ended in a panic.
# TYPE tocsin_test_panics_total counter
tocsin_test_panics_total 2
# HELP tocsin_test_requests_total Requests answered, by path and status.
# TYPE tocsin_test_requests_total counter
tocsin_test_requests_total{code="200",path="/late-panic"} 1
tocsin_test_requests_total{code="200",path="/things"} 1
tocsin_test_requests_total{code="200",path="page"} 1
tocsin_test_requests_total{code="404",path="other"} 2
tocsin_test_requests_total{code="405",path="/things/{id}"} 1
tocsin_test_requests_total{code="500",path="/panic"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "tocsin_test_requests_total", "tocsin_test_panics_total"); err != nil {
		t.Error(err)
	}
	if got := strings.Count(log.String(), "panic while answering a request"); got != 2 {
		t.Errorf("%d log lines about panics, want 2:\n%s", got, &log)
	}
}

// TestFrontAborts: net/http closes the connection of a handler that panics so.
func TestFrontAborts(t *testing.T) {
	cfg := testConfig()
	cfg.Routes = []httpserve.Route{{Pattern: "/", Handle: func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }}}
	cfg.Routes[0].Pattern = "/abort"
	defer func() {
		if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // the very value
			t.Errorf("recovered %v, want http.ErrAbortHandler", v)
		}
	}()
	send(httpserve.New(cfg), "GET", "/abort")
}

// TestFrontDiscards: the rest of a refused body is read up to the limit, unless the
// sender waits for leave to send it, or announces more.
func TestFrontDiscards(t *testing.T) {
	cfg := testConfig()
	cfg.DiscardLimit = 10
	front := httpserve.New(cfg)
	for _, c := range []struct {
		name, body, expect string
		length             int64
		left               int
	}{
		{name: "short", body: "12345", length: 5, left: 0},
		{name: "unannounced", body: "123456789012345", length: -1, left: 5},
		{name: "too long", body: "123456789012345", length: 15, left: 15},
		{name: "waits", body: "12345", length: 5, expect: "100-continue", left: 5},
	} {
		body := strings.NewReader(c.body)
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/nothing", io.NopCloser(body))
		r.ContentLength = c.length
		if c.expect != "" {
			r.Header.Set("Expect", c.expect)
		}
		front.ServeHTTP(httptest.NewRecorder(), r)
		if body.Len() != c.left {
			t.Errorf("%s: %d bytes are left, want %d", c.name, body.Len(), c.left)
		}
	}
}

func TestReadBody(t *testing.T) {
	for _, c := range []struct {
		name    string
		body    io.Reader
		want    string
		refused *httpserve.Refusal
	}{
		{name: "at the limit", body: strings.NewReader("12345"), want: "12345"},
		{name: "over it", body: strings.NewReader("123456"), refused: httpserve.BodyTooLarge(5, "")},
		{name: "broken", body: io.MultiReader(strings.NewReader("12"), broken{}), refused: httpserve.BodyBroken(io.ErrUnexpectedEOF)},
	} {
		got, err := httpserve.ReadBody(httptest.NewRequest(http.MethodPost, "/", c.body), 5)
		if string(got) != c.want {
			t.Errorf("%s: body %q, want %q", c.name, got, c.want)
		}
		if diff := cmp.Diff(c.refused, httpserve.AsRefusal(err)); diff != "" {
			t.Errorf("%s: refusal (-want +got):\n%s", c.name, diff)
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestRefusalCopies: a refusal that is kept for several requests does not change.
func TestRefusalCopies(t *testing.T) {
	first := httpserve.Refuse(http.StatusConflict, "taken").With("A", "1")
	_ = first.With("B", "2").Retry(1).At(0)
	want := &httpserve.Refusal{Status: 409, Message: "taken", Header: http.Header{"A": {"1"}}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the refusal changed (-want +got):\n%s", diff)
	}
}

// TestFrontBrokenAnswer checks that a client can distinguish an answer that broke off from a whole
// one, and that nothing is added to what was already sent.
func TestFrontBrokenAnswer(t *testing.T) {
	cfg := testConfig()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Routes = append(cfg.Routes, httpserve.Route{Pattern: "GET /flushed", Handle: func(w http.ResponseWriter, _ *http.Request) error {
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		return errors.New("no more")
	}})
	server := httptest.NewServer(httpserve.New(cfg))
	t.Cleanup(server.Close)
	for path, want := range map[string]struct {
		body   string
		broken bool
	}{
		"/things":     {`"list "`, false},
		"/late-panic": {"begun", true},
		"/flushed":    {"", false},
	} {
		body, err := get(t, server.URL+path)
		if (err != nil) != want.broken || !strings.HasPrefix(want.body, body) || !want.broken && body != want.body {
			t.Errorf("GET %s = %q, error %v, want %q, broken off: %t", path, body, err, want.body, want.broken)
		}
	}
}

// get returns the body of an answer, and the error of reading it or of the request.
func get(t *testing.T, url string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", fmt.Errorf("request: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

// TestFrontRefusesSubtrees checks that no pattern makes ServeMux redirect before the checks.
func TestFrontRefusesSubtrees(t *testing.T) {
	for _, pattern := range []string{"GET /sub/", "/sub/", "GET /sub/{id}/"} {
		func() {
			defer func() {
				if v := recover(); v == nil {
					t.Errorf("New with the pattern %q returned, want a panic", pattern)
				}
			}()
			httpserve.New(httpserve.Config{Routes: []httpserve.Route{{Pattern: pattern, Answer: text("sub")}}})
		}()
	}
}
