package ingest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/httpserve/httpservetest"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSink keeps the messages, or fails.
type fakeSink struct {
	mu            sync.Mutex
	msgs          []*nats.Msg
	err, notReady error
	deliveredErr  error
	// showErr is the error of Show.
	showErr error
	shown   int
	// during is called in the middle of a write.
	during func()
}

func (f *fakeSink) Publish(_ context.Context, msgs ...*nats.Msg) error {
	if f.during != nil {
		f.during()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.msgs = append(f.msgs, msgs...)
	}
	return f.err
}

func (f *fakeSink) Show(_ context.Context, result *nats.Msg) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.showErr == nil {
		f.msgs = append(f.msgs, result)
		f.shown++
	}
	return f.showErr
}

func (f *fakeSink) Delivered(_ context.Context, subject string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.msgs, func(m *nats.Msg) bool { return m.Subject == subject }), f.deliveredErr
}

func (f *fakeSink) Ready(context.Context) error { return f.notReady }

// fakeMasker masks one word in a few places.
type fakeMasker struct{}

func mask(s string) string { return strings.ReplaceAll(s, "hunter2", "[REDACTED]") }

func (fakeMasker) Event(e *telemetry.Event) {
	if e.Log == nil {
		return
	}
	if e.Log.Message == "panic" {
		panic("a bug in a rule")
	}
	e.Log.Message = mask(e.Log.Message)
}

func (fakeMasker) String(s string) string { return mask(s) }

func (fakeMasker) Result(r *ci.Result) { r.Summary = mask(r.Summary) }

var arrival = time.Date(2026, 1, 28, 14, 30, 0, 123_456_789, time.UTC)

func testHandler(s sink, change ...func(*Config)) *handler {
	cfg := Config{
		Masker: fakeMasker{}, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		MaxInFlight: DefaultMaxInFlight, AllowedOrigins: []string{"https://app.example", "https://*.pattern.example"},
	}
	for _, f := range change {
		f(&cfg)
	}
	h := newHandler(cfg, s)
	h.now = func() time.Time { return arrival }
	return h
}

// ask returns a request; headers are names and values in turn.
func ask(method, path string, body io.Reader, header ...string) *http.Request {
	return httpservetest.Request(method, testURL, path, body, header...)
}

// testURL is the address of handlers in tests.
const testURL = "http://127.0.0.1:7400"

const (
	logEvent = `{"kind":"log","log":{"level":"error","message":"boom"}}`
	failure  = `{"status":"failure","source":"github-actions","commit":"abc123","name":"build"}`
)

// lateBody is a body that does not arrive in time.
type lateBody struct{}

func (lateBody) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// brokenBody is a body whose sender disconnected.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// unsized hides the length of a body.
type unsized struct{ io.Reader }

func withToken(c *Config) { c.Token = "s3cret" }

func TestAnswers(t *testing.T) {
	j, nd := []string{"Content-Type", "application/json"}, []string{"Content-Type", "application/x-ndjson"}
	with := func(header ...string) []string { return append(slices.Clone(j), header...) }
	large := func() io.Reader { return strings.NewReader(strings.Repeat(" ", maxBody+1)) }
	type answerCase struct {
		name         string
		status       int
		method, path string
		body         io.Reader
		header       []string
		sink         *fakeSink
		change       func(*Config)
		crowd        int64 // requests in flight already
	}
	text := func(s string) io.Reader { return strings.NewReader(s) }
	var golden bytes.Buffer
	for _, c := range []answerCase{
		{name: "one event", status: 200, method: "POST", path: "/v1/events", body: text(logEvent), header: j},
		{name: "an array", status: 200, method: "POST", path: "/v1/events", body: text("[" + logEvent + "," + logEvent + "]"), header: j},
		{name: "an empty array", status: 200, method: "POST", path: "/v1/events", body: text("[]"), header: j},
		{name: "NDJSON", status: 200, method: "POST", path: "/v1/events", body: text(logEvent + "\n\n" + logEvent + "\n"), header: []string{"Content-Type", "application/x-ndjson"}},
		{name: "NDJSON of Windows, no end of line", status: 200, method: "POST", path: "/v1/events", body: text(logEvent + "\r\n\r\n" + logEvent), header: []string{"Content-Type", "application/x-ndjson; charset=UTF-8"}},
		{name: "NDJSON as text", status: 200, method: "POST", path: "/v1/events", body: text(logEvent + "\n" + logEvent), header: []string{"Content-Type", "text/plain"}},
		{name: "a byte order mark", status: 200, method: "POST", path: "/v1/events", body: text("\ufeff" + logEvent), header: j},
		{name: "a charset", status: 200, method: "POST", path: "/v1/events", body: text(logEvent), header: []string{"Content-Type", "Application/JSON; charset=utf8"}},
		{name: "a CI result with a byte order mark", status: 200, method: "POST", path: "/ci-result", body: text("\ufeff" + failure), header: j},
		{name: "a CI result without failures", status: 200, method: "POST", path: "/ci-result", body: text(`{"status":"success","failures":[],"color":"green"}`), header: j},
		{name: "sendBeacon", status: 200, method: "POST", path: "/v1/events", body: text(logEvent), header: []string{"Content-Type", "text/plain;charset=UTF-8", "Origin", "http://localhost:3000"}},
		{name: "a CI result", status: 200, method: "POST", path: "/ci-result", body: text(failure), header: j},
		{name: "a CI result as text", status: 200, method: "POST", path: "/ci-result", body: text(failure), header: []string{"Content-Type", "text/plain"}},
		{name: "a CI result as a line", status: 200, method: "POST", path: "/ci-result", body: text("\r\n" + failure + "\r\n"), header: nd},
		{name: "a CI result on several lines", status: 200, method: "POST", path: "/ci-result", body: text("{\n" + failure[1:] + "\n"), header: j},
		{name: "a beacon on several lines", status: 200, method: "POST", path: "/v1/events", body: text("{\n" + logEvent[1:] + "\n"), header: []string{"Content-Type", "text/plain"}},
		{name: "a body without a length", status: 200, method: "POST", path: "/v1/events", body: unsized{text(logEvent)}, header: j},
		{name: "alive", status: 200, method: "GET", path: "/healthz"},
		{name: "alive, without a body", status: 200, method: "HEAD", path: "/healthz"},
		{name: "ready", status: 200, method: "GET", path: "/readyz"},

		{name: "a wrong event", status: 400, method: "POST", path: "/v1/events", body: text(`{"kind":"log","log":{"level":"fatal","message":"x"}}`), header: j},
		{name: "a wrong event in a batch", status: 400, method: "POST", path: "/v1/events", body: text("[" + logEvent + "," + logEvent + `,{"kind":"trace"}]`), header: j},
		{name: "a wrong type in a batch", status: 400, method: "POST", path: "/v1/events", body: text("[" + logEvent + `,{"kind":"log","log":{"level":"info","message":7}}]`), header: j},
		{name: "a wrong line", status: 400, method: "POST", path: "/v1/events", body: text(logEvent + "\n{"), header: []string{"Content-Type", "application/x-ndjson"}},
		{name: "a wrong first line", status: 400, method: "POST", path: "/v1/events", body: text(`{"kind":"log"}` + "\n" + logEvent), header: []string{"Content-Type", "text/plain"}},
		{name: "an array that breaks off", status: 400, method: "POST", path: "/v1/events", body: text("[" + logEvent + `,{"kind":`), header: j},
		{name: "an array with a comma too many", status: 400, method: "POST", path: "/v1/events", body: text("[" + logEvent + ",]"), header: j},
		{name: "an array that is not closed", status: 400, method: "POST", path: "/v1/events", body: text("[" + logEvent + "," + logEvent), header: j},
		{name: "something behind an array", status: 400, method: "POST", path: "/v1/events", body: text("[" + logEvent + "]x"), header: j},
		{name: "two objects on a line", status: 400, method: "POST", path: "/v1/events", body: text(logEvent + "\n" + logEvent + " " + logEvent), header: nd},
		{name: "one object on two lines", status: 400, method: "POST", path: "/v1/events", body: text(logEvent + "\n{\n" + logEvent[1:]), header: nd},
		{name: "two objects as JSON", status: 400, method: "POST", path: "/v1/events", body: text(logEvent + logEvent), header: j},
		{name: "a number in args that no program can hold", status: 400, method: "POST", path: "/v1/events", body: text(`{"kind":"log","log":{"level":"info","message":"x","args":[1e999]}}`), header: j},
		{name: "a header that is an object", status: 400, method: "POST", path: "/v1/events", body: text(`{"kind":"network","network":{"method":"GET","url":"/","status":200,"request_headers":{"a":{}}}}`), header: j},
		{name: "two CI results on two lines", status: 400, method: "POST", path: "/ci-result", body: text(failure + "\n" + failure), header: nd},
		{name: "two CI results on a line", status: 400, method: "POST", path: "/ci-result", body: text(failure + failure), header: nd},
		{name: "one CI result on two lines", status: 400, method: "POST", path: "/ci-result", body: text("{\n" + failure[1:]), header: nd},
		{name: "no line of CI", status: 400, method: "POST", path: "/ci-result", body: text("\n\n"), header: nd},
		{name: "no object", status: 400, method: "POST", path: "/v1/events", body: text("7"), header: j},
		{name: "no object in a batch", status: 400, method: "POST", path: "/v1/events", body: text("[" + logEvent + ",null]"), header: j},
		{name: "no JSON", status: 400, method: "POST", path: "/v1/events", body: text("hello"), header: j},
		{name: "no event", status: 400, method: "POST", path: "/v1/events", body: text(" "), header: j},
		{name: "no body", status: 400, method: "POST", path: "/v1/events", header: j},
		{name: "no line", status: 400, method: "POST", path: "/v1/events", body: text("\n\r\n"), header: []string{"Content-Type", "application/x-ndjson"}},
		{name: "no CI result", status: 400, method: "POST", path: "/ci-result", header: j},
		{name: "a list of CI results", status: 400, method: "POST", path: "/ci-result", body: text("[" + failure + "]"), header: j},
		{name: "a CI result that breaks off", status: 400, method: "POST", path: "/ci-result", body: text(failure[:20]), header: j},
		{name: "failures of CI that are none", status: 400, method: "POST", path: "/ci-result", body: text(`{"status":"failure","failures":["test_login"]}`), header: j},
		{name: "a wrong status of CI", status: 400, method: "POST", path: "/ci-result", body: text(`{"status":"passed"}`), header: j},
		{name: "no status of CI", status: 400, method: "POST", path: "/ci-result", body: text(`{}`), header: j},
		{name: "a wrong source of CI", status: 400, method: "POST", path: "/ci-result", body: text(`{"status":"success","source":"jenkins"}`), header: j},
		{name: "a broken body", status: 400, method: "POST", path: "/v1/events", body: brokenBody{}, header: j},
		{name: "no token", status: 401, method: "POST", path: "/v1/events", body: text(logEvent), header: j, change: withToken},
		{name: "a wrong token", status: 401, method: "POST", path: "/ci-result", body: text(failure), header: with("Authorization", "Bearer s3cre"), change: withToken},
		{name: "another scheme", status: 401, method: "POST", path: "/ci-result", body: text(failure), header: with("Authorization", "Basic s3cret"), change: withToken},
		{name: "the token", status: 200, method: "POST", path: "/ci-result", body: text(failure), header: with("Authorization", "bearer s3cret"), change: withToken},
		{name: "reading on this machine needs no token", status: 200, method: "GET", path: "/readyz", change: withToken},
		{name: "a rebound host", status: 403, method: "POST", path: "/v1/events", body: text(logEvent), header: with("Host", "evil.example:7400")},
		{name: "a rebound host reads", status: 403, method: "GET", path: "/metrics", header: []string{"Host", "evil.example"}},
		{name: "a foreign page sends telemetry", status: 403, method: "POST", path: "/v1/events", body: text(logEvent), header: []string{"Content-Type", "text/plain", "Origin", "https://evil.example"}},
		{name: "a sandboxed page sends telemetry", status: 403, method: "POST", path: "/v1/events", body: text(logEvent), header: []string{"Content-Type", "text/plain", "Origin", "null"}},
		{name: "a configured page sends telemetry", status: 200, method: "POST", path: "/v1/events", body: text(logEvent), header: with("Origin", "https://app.example")},
		{name: "a page learns what is wrong", status: 400, method: "POST", path: "/v1/events", body: text("{}"), header: with("Origin", "http://localhost:3000")},
		{name: "a foreign page sends a CI result", status: 403, method: "POST", path: "/ci-result", body: text(failure), header: []string{"Content-Type", "text/plain", "Origin", "https://evil.example"}},
		{name: "a local page sends a CI result", status: 200, method: "POST", path: "/ci-result", body: text(failure), header: with("Origin", "http://localhost:3000")},
		{name: "a configured page sends a CI result", status: 200, method: "POST", path: "/ci-result", body: text(failure), header: with("Origin", "https://app.example")},
		{name: "the own origin sends a CI result", status: 200, method: "POST", path: "/ci-result", body: text(failure), header: with("Origin", "http://127.0.0.1:7400")},
		{name: "a foreign page reads", status: 403, method: "GET", path: "/metrics", header: []string{"Origin", "https://evil.example"}},
		{name: "a foreign page embeds", status: 403, method: "GET", path: "/readyz", header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}},
		{name: "preflight of a local page", status: 204, method: "OPTIONS", path: "/v1/events", header: []string{"Origin", "http://localhost:3000", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"}},
		{name: "preflight with a private network", status: 204, method: "OPTIONS", path: "/v1/events", header: []string{"Origin", "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Private-Network", "true"}},
		{name: "preflight of a foreign page", status: 403, method: "OPTIONS", path: "/v1/events", header: []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Private-Network", "true"}},
		{name: "preflight of null", status: 403, method: "OPTIONS", path: "/v1/events", header: []string{"Origin", "null", "Access-Control-Request-Method", "POST"}},
		{name: "preflight for CI results", status: 405, method: "OPTIONS", path: "/ci-result", header: []string{"Origin", "http://localhost:3000", "Access-Control-Request-Method", "POST"}},
		{name: "preflight needs no token", status: 204, method: "OPTIONS", path: "/v1/events", header: []string{"Origin", "http://localhost:3000", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization"}, change: withToken},
		{name: "a page without the token learns it", status: 401, method: "POST", path: "/v1/events", body: text(logEvent), header: with("Origin", "http://localhost:3000"), change: withToken},
		{name: "a foreign page reads events", status: 403, method: "GET", path: "/v1/events", header: []string{"Origin", "https://evil.example"}},
		{name: "a foreign page asks for health", status: 403, method: "GET", path: "/healthz", header: []string{"Origin", "https://evil.example"}},
		{name: "a sandboxed page sends a CI result", status: 403, method: "POST", path: "/ci-result", body: text(failure), header: []string{"Content-Type", "text/plain", "Origin", "null"}},
		{name: "a foreign page asks for nothing that is there", status: 403, method: "GET", path: "/", header: []string{"Origin", "https://evil.example"}},
		{name: "a rebound host sends a preflight", status: 403, method: "OPTIONS", path: "/v1/events", header: []string{"Host", "evil.example", "Origin", "http://evil.example", "Access-Control-Request-Method", "POST"}},
		{name: "another path", status: 404, method: "GET", path: "/"},
		{name: "another path, posted", status: 404, method: "POST", path: "/v1/event", body: text(logEvent), header: j},
		{name: "GET of events", status: 405, method: "GET", path: "/v1/events"},
		{name: "OPTIONS of events", status: 405, method: "OPTIONS", path: "/v1/events"},
		{name: "PUT of a CI result", status: 405, method: "PUT", path: "/ci-result", body: text(failure), header: j},
		{name: "POST of health", status: 405, method: "POST", path: "/healthz"},
		{name: "HEAD of events", status: 405, method: "HEAD", path: "/v1/events"},
		{name: "DELETE of metrics", status: 405, method: "DELETE", path: "/metrics"},
		{name: "late", status: 408, method: "POST", path: "/v1/events", body: lateBody{}, header: j},
		{name: "too large", status: 413, method: "POST", path: "/v1/events", body: large(), header: j},
		{name: "too large without a length", status: 413, method: "POST", path: "/ci-result", body: unsized{large()}, header: j},
		{name: "no content type", status: 415, method: "POST", path: "/v1/events", body: text(logEvent)},
		{name: "a form", status: 415, method: "POST", path: "/v1/events", body: text(logEvent), header: []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{name: "two content types", status: 415, method: "POST", path: "/ci-result", body: text(failure), header: with("Content-Type", "text/plain")},
		{name: "another charset", status: 415, method: "POST", path: "/v1/events", body: text(logEvent), header: []string{"Content-Type", "text/plain; charset=latin1"}},
		{name: "compressed", status: 415, method: "POST", path: "/v1/events", body: text(logEvent), header: with("Content-Encoding", "gzip")},
		{name: "too much in flight", status: 429, method: "POST", path: "/v1/events", body: text(logEvent), header: j, change: func(c *Config) { c.MaxInFlight = 10 }},
		{name: "too many in flight", status: 429, method: "POST", path: "/ci-result", body: text(failure), header: j, crowd: maxRequests},
		{name: "the bus is busy", status: 429, method: "POST", path: "/v1/events", body: text(logEvent), header: j, sink: &fakeSink{err: fmt.Errorf("publish to telemetry.default.log: %w", bus.ErrBusy)}},
		{name: "a bug", status: 500, method: "POST", path: "/v1/events", body: text(`{"kind":"log","log":{"level":"info","message":"panic"}}`), header: j},
		{name: "the bus is unreachable", status: 503, method: "POST", path: "/v1/events", body: text(logEvent), header: j, sink: &fakeSink{err: bus.ErrUnreachable}},
		{name: "the bus refuses", status: 503, method: "POST", path: "/ci-result", body: text(failure), header: j, sink: &fakeSink{err: fmt.Errorf("publish to intake.ci: %w: insufficient storage", bus.ErrRefused)}},
		{name: "not ready", status: 503, method: "GET", path: "/readyz", sink: &fakeSink{notReady: errors.New("stream TELEMETRY does not exist: start tocsin up or tocsin detector once")}},
		{name: "alive though not ready", status: 200, method: "GET", path: "/healthz", sink: &fakeSink{notReady: bus.ErrUnreachable}},
	} {
		if c.sink == nil {
			c.sink = &fakeSink{}
		}
		accepted := 0
		h := testHandler(c.sink, func(cfg *Config) {
			cfg.Accepted = func() { accepted++ }
			if c.change != nil {
				c.change(cfg)
			}
		})
		h.inFlight.requests.Store(c.crowd)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, ask(c.method, c.path, c.body, c.header...))
		if w.Code != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.name, w.Code, c.status, w.Body)
		}
		if stored := len(c.sink.msgs) > 0; stored != (accepted == 1) || stored && w.Code != 200 {
			t.Errorf("%s: %d messages stored, Accepted called %d times, status %d; want 200 and one call with messages alone", c.name, len(c.sink.msgs), accepted, w.Code)
		}
		if result := len(c.sink.msgs) > 0 && c.path == "/ci-result"; result != (c.sink.shown == 1) {
			t.Errorf("%s: shown %d times, want once: %t", c.name, c.sink.shown, result)
		}
		if h.inFlight.used.Load() != 0 || h.inFlight.requests.Load() != c.crowd {
			t.Errorf("%s: %d bytes and %d requests are still in flight, want 0 and %d", c.name, h.inFlight.used.Load(), h.inFlight.requests.Load(), c.crowd)
		}
		fmt.Fprintf(&golden, "=== %s\n%s %s\n%s\n", c.name, c.method, c.path, httpservetest.Render(w.Result()))
	}
	compare(t, "testdata/answers.golden", golden.Bytes())
}

// TestResultNotInView checks that a result that is in the detector's log but not in the
// view is refused: 2xx means that both have it.
func TestResultNotInView(t *testing.T) {
	for err, want := range map[error]int{errResultsBusy: 503, bus.ErrUnreachable: 503, bus.ErrBusy: 429} {
		s := &fakeSink{showErr: err}
		h := testHandler(s, func(c *Config) { c.Accepted = func() { t.Error("Accepted was called") } })
		w := httptest.NewRecorder()
		h.ServeHTTP(w, ask("POST", pathCIResult, strings.NewReader(failure), "Content-Type", typeJSON))
		if w.Code != want || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), err.Error()) {
			t.Errorf("got %d %v %s, want %d, Retry-After 1 and the error", w.Code, w.Header(), w.Body, want)
		}
		if len(s.msgs) != 1 || s.msgs[0].Subject != bus.SubjectIntakeCI {
			t.Errorf("%d messages are stored, want 1 on %s", len(s.msgs), bus.SubjectIntakeCI)
		}
	}
}

func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s differs in line %d:\ngot  %s\nwant %s", file, i+1, g[i], w[i])
		}
	}
	t.Fatalf("got %d lines, want the %d of %s", len(g), len(w), file)
}

func TestMetricsPage(t *testing.T) {
	h := testHandler(&fakeSink{})
	h.ServeHTTP(httptest.NewRecorder(), ask("POST", "/v1/events", strings.NewReader(logEvent), "Content-Type", "application/json"))
	h.ServeHTTP(httptest.NewRecorder(), ask("GET", "/etc/passwd", nil))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, ask("GET", "/metrics", nil))
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("got %d %s, want 200 text/plain", w.Code, w.Header())
	}
	for _, want := range []string{
		`tocsin_ingest_requests_total{code="200",path="/v1/events"} 1`,
		`tocsin_ingest_requests_total{code="404",path="other"} 1`,
		`tocsin_ingest_events_total{kind="log"} 1`,
		"go_goroutines", "process_start_time_seconds",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestInFlightIsShared(t *testing.T) {
	s := &fakeSink{}
	h := testHandler(s, func(c *Config) { c.MaxInFlight = int64(len(logEvent)) + 10 })
	var inner *httptest.ResponseRecorder
	s.during = func() {
		s.during = nil
		inner = httptest.NewRecorder()
		h.ServeHTTP(inner, ask("POST", "/v1/events", strings.NewReader(logEvent), "Content-Type", "application/json"))
	}
	outer := httptest.NewRecorder()
	h.ServeHTTP(outer, ask("POST", "/v1/events", strings.NewReader(logEvent), "Content-Type", "application/json"))
	if outer.Code != 200 || inner.Code != 429 || inner.Header().Get("Retry-After") != "1" {
		t.Errorf("outer status %d, inner %d %v, want 200, 429 and Retry-After 1", outer.Code, inner.Code, inner.Header())
	}
}
