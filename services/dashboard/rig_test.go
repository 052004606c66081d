package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// waitTimeout bounds every wait.
const waitTimeout = 30 * time.Second

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(waitTimeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("no %s within %s, want it", what, waitTimeout)
		case <-tick.C:
		}
	}
}

// testBus is a bus that a test can stop and start again. The tests publish its alerts.
type testBus struct {
	dir    statedir.Dir
	lock   *statedir.Lock
	server *embedded.Server
	// detector is the session of a detector.
	detector *bus.Session
	// n is the number of alerts that alert made.
	n int
}

func newBus(t *testing.T) *testBus {
	t.Helper()
	dir, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &testBus{dir: dir}
	b.up(t)
	t.Cleanup(b.down)
	return b
}

func (b *testBus) up(t *testing.T) {
	t.Helper()
	var err error
	if b.lock, err = b.dir.Lock(); err != nil {
		t.Fatal(err)
	}
	if b.server, err = embedded.Start(t.Context(), embedded.Config{Dir: b.dir, Addr: "127.0.0.1:0", Logger: discard()}); err != nil {
		t.Fatal(err)
	}
	b.detector, err = bus.Connect(t.Context(), bus.Config{Name: t.Name(), Role: bus.RoleDetector, Server: b.server, Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.lock.Announce(statedir.Runtime{PID: 1, NATSURL: b.server.URL()}); err != nil {
		t.Fatal(err)
	}
}

func (b *testBus) down() {
	if b.server == nil {
		return
	}
	b.detector.Close()
	b.server.Close()
	_ = b.lock.Release() // a directory that is about to be removed
	b.server = nil
}

// config returns a configuration that connects by the state directory, also after a restart.
func (b *testBus) config() Config {
	join := bus.Config{Dir: b.dir, Logger: discard()}
	return Config{Bus: join, Actions: &join, Browser: Browser{URL: announcedURL(b.dir), Key: KeyIn(b.dir)}, Version: "v1"}
}

// alert makes a new alert: alert001, alert002 and so on.
func (b *testBus) alert() alert.Alert {
	b.n++
	id := fmt.Sprintf("alert%03d", b.n)
	return alert.Alert{
		ID: id, Severity: alert.Error, Category: alert.CI, Title: "CI failure: " + id, Detail: "1 failed", App: "web",
		Timestamp: time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC).Add(time.Duration(b.n) * time.Second), Source: alert.SourceCI, DedupKey: "ci:" + id, CorrelationID: id,
	}
}

// raise publishes n new alerts.
func (b *testBus) raise(t *testing.T, n int) {
	t.Helper()
	for range n {
		b.publish(t, b.alert())
	}
}

func (b *testBus) publish(t *testing.T, a alert.Alert) {
	t.Helper()
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	b.publishRaw(t, bus.AlertSubject(a), data)
}

func (b *testBus) publishRaw(t *testing.T, subject string, data []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	if _, err := b.detector.JS.Publish(ctx, subject, data); err != nil {
		t.Fatal(err)
	}
}

// running is a dashboard under test.
type running struct {
	url  string
	stop func()
}

// start runs a dashboard; stop ends it and checks its error.
func start(t *testing.T, cfg Config) *running {
	t.Helper()
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	if cfg.Logger == nil {
		cfg.Logger = discard()
	}
	ready := make(chan string, 1)
	cfg.Ready = func(url string) { ready <- url }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg) }()
	d := &running{stop: func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		done <- nil
		http.DefaultClient.CloseIdleConnections()
	}}
	t.Cleanup(d.stop)
	select {
	case d.url = <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	return d
}

// onBus runs a bus and a dashboard that is ready.
func onBus(t *testing.T) (*testBus, *running) {
	t.Helper()
	b := newBus(t)
	d := start(t, b.config())
	d.awaitReady(t)
	return b, d
}

func (d *running) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, "readiness", func() bool { return d.get(t, pathReady).status == http.StatusOK })
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// check fails the test unless the answer has a status, and a text in its body.
func (a answer) check(t *testing.T, request string, status int, text string) {
	t.Helper()
	if a.status != status {
		t.Errorf("%s: status = %d, want %d; the body is %s", request, a.status, status, a.body)
	}
	checkContains(t, request+": body", a.body, text)
}

// checkHeader fails the test unless a header has a value.
func (a answer) checkHeader(t *testing.T, request, name, value string) {
	t.Helper()
	checkEqual(t, request+": "+name, a.header.Get(name), value)
}

func (a answer) json(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("decode %s: %v", a.body, err)
	}
}

func (d *running) get(t *testing.T, path string, header ...string) answer {
	t.Helper()
	return d.send(t, http.MethodGet, path, "", header...)
}

func (d *running) send(t *testing.T, method, path, body string, header ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// listener reads a stream of events.
type listener struct {
	resp   *http.Response
	events chan sseEvent
	// closed is closed when the stream has ended.
	closed chan struct{}
	cancel context.CancelFunc
}

// sseEvent is one event, or comments without one.
type sseEvent struct {
	id         uint64
	kind, data string
}

// listen opens a stream, and reads its events into a buffer.
func (d *running) listen(t *testing.T, query string, header ...string) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+pathStream+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r) //nolint:bodyclose // read closes it
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("GET %s = %d, %v, want 200 and text/event-stream", query, resp.StatusCode, resp.Header)
	}
	l := &listener{resp: resp, events: make(chan sseEvent, 100_000), closed: make(chan struct{}), cancel: cancel}
	go l.read()
	t.Cleanup(l.close)
	return l
}

func (l *listener) read() {
	defer close(l.closed)
	defer func() { _ = l.resp.Body.Close() }()
	var e sseEvent
	lines := bufio.NewScanner(l.resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id, _ = strconv.ParseUint(value, 10, 64)
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "":
			if e != (sseEvent{}) {
				l.events <- e
			}
			e = sseEvent{}
		}
	}
}

func (l *listener) close() {
	l.cancel()
	<-l.closed
}

// next waits for one event.
func (l *listener) next(t *testing.T) sseEvent {
	t.Helper()
	select {
	case e := <-l.events:
		return e
	case <-l.closed:
		select {
		case e := <-l.events: // it arrived before the end
			return e
		default:
		}
		t.Fatal("the stream has ended, want an event")
	case <-time.After(waitTimeout):
		t.Fatalf("no event within %s, want one", waitTimeout)
	}
	return sseEvent{}
}

// ids waits for n alerts and returns their numbers: 1-3 for alert001 to alert003.
func (l *listener) ids(t *testing.T, n int) string {
	t.Helper()
	var all []int
	for range n {
		e := l.next(t)
		var a struct{ ID string }
		if err := json.Unmarshal([]byte(e.data), &a); err != nil || e.kind != "" {
			t.Fatalf("event = %+v (%v), want an alert", e, err)
		}
		number, err := strconv.Atoi(strings.TrimPrefix(a.ID, "alert"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, number)
	}
	return spans(all)
}

// spans writes 1, 2, 3, 7 as 1-3 7.
func spans(all []int) string {
	var out []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		if i == j {
			out = append(out, strconv.Itoa(all[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", all[i], all[j]))
		}
		i = j + 1
	}
	return strings.Join(out, " ")
}

func checkEqual(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %q, want %q", what, got, want)
	}
}

func checkContains(t *testing.T, what, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%s = %s, want %q in it", what, got, want)
	}
}

func checkLacks(t *testing.T, what, got, unwanted string) {
	t.Helper()
	if strings.Contains(got, unwanted) {
		t.Errorf("%s = %s, want no %q in it", what, got, unwanted)
	}
}

// awaitMetric waits until the metrics have a line.
func (d *running) awaitMetric(t *testing.T, line string) {
	t.Helper()
	eventually(t, line, func() bool { return strings.Contains(d.get(t, pathMetrics).body, line+"\n") })
}

// replaceStore replaces a store with another.
func replaceStore(t *testing.T, old, replacement string) {
	t.Helper()
	if err := os.RemoveAll(old); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(replacement, old); err != nil {
		t.Fatal(err)
	}
}
