package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// listen reads the event stream of a dashboard until the end of the test.
func listen(t *testing.T, dashboard, query string, last uint64) *harness.Stream {
	t.Helper()
	s, err := harness.Listen(t.Context(), dashboard, query, last)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func nextAlert(t *testing.T, s *harness.Stream) (uint64, alert.Alert) {
	t.Helper()
	e, err := s.Next(t.Context(), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	a, err := e.Alert()
	if err != nil {
		t.Fatal(err)
	}
	return e.ID, a
}

// TestDashboard checks that an alert is on the event stream when it is raised and in
// the history afterwards, and that a reader continues where it was.
func TestDashboard(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	live := listen(t, sys.Bus.DashboardURL, "", 0)
	sys.PostCI(t, map[string]any{"status": "failure", "name": "test", "commit": "abc", "summary": "<script>alert(1)</script>"})
	seq, a := nextAlert(t, live)
	if seq != 1 || a.Category != alert.CI || a.Severity != alert.Error || !strings.Contains(a.Detail, "<script>") {
		t.Errorf("got %d %+v, want 1, Category %v, Severity %v and \"<script>\" in Detail", seq, a, alert.CI, alert.Error)
	}
	sys.PostCI(t, map[string]any{"status": "success", "name": "test", "commit": "abc"})
	if seq, a := nextAlert(t, live); seq != 2 || a.Resolves == "" {
		t.Errorf("got %d %+v, want 2 and a Resolves", seq, a)
	}
	for query, last := range map[string]uint64{"?replay=1": 0, "": 1, "?category=ci&severity=info&app=default&last_event_id=1": 0} {
		s := listen(t, sys.Bus.DashboardURL, query, last)
		if seq, _ := nextAlert(t, s); seq != 2 {
			t.Errorf("%s: got %d, want 2", query, seq)
		}
	}
	var history struct {
		Alerts []struct {
			Seq   uint64
			Alert alert.Alert
		}
	}
	if err := e2etest.Send(t, "GET", sys.Bus.DashboardURL+"/api/alerts", "").JSON(&history); err != nil || len(history.Alerts) != 2 || history.Alerts[1].Alert.ID != a.ID {
		t.Errorf("got %+v %v, want 2 entries in Alerts and ID %v", history, err, a.ID)
	}
	page := e2etest.Send(t, "GET", sys.Bus.DashboardURL+"/", "")
	if page.Status != 200 || !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") || strings.Contains(page.Header.Get("Content-Security-Policy"), "unsafe") {
		t.Errorf("got %d %v, want Status 200, Get that begins with \"text/html\" and no \"unsafe\" in Get", page.Status, page.Header)
	}
	code, out, _ := e2etest.Tocsin(t, sys.Bus.StateDir, "doctor")
	if !strings.Contains(out, "dashboard        "+sys.Bus.DashboardURL+" is ready") {
		t.Errorf("tocsin doctor (exit code %d) = %s, want that the dashboard is ready", code, out)
	}
	if out := sys.Bus.Stdout.String(); !strings.Contains(out, "  dashboard    "+sys.Bus.DashboardURL+"\n") {
		t.Errorf("tocsin up = %s, want the URL of the dashboard", out)
	}
}

// TestDashboardActions checks that the noise rules and silences of the page hold for
// the detector and every agent.
func TestDashboardActions(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	api := sys.Bus.DashboardURL + "/api/"
	sys.PostVitals(t, "/cart", 2500)
	sys.PostLogs(t, "error", 1, func(int) string { return "TypeError: x is undefined" })
	live := listen(t, sys.Bus.DashboardURL, "?replay=10", 0)
	if _, a := nextAlert(t, live); a.Category != alert.Errors {
		t.Errorf("got %+v, want Category %v", a, alert.Errors)
	}
	for path, text := range map[string]string{
		"status":                                 `"app":"web"`,
		"vitals?app=web":                         `"page":"/cart"`,
		"events?app=web&kind=log":                `TypeError: x is undefined`,
		"noise":                                  `"rules":[`,
		"notices":                                `"notices":[]`,
		"silences":                               `{"silences":[],"acks":[]}`,
		"session":                                `"bus":{"url":"` + sys.Bus.NATSWSURL + `","seed":"SU`,
		"health":                                 `"service":"detector"`,
		"events?until=" + "2020-01-01T00:00:00Z": `"events":[]`,
	} {
		if a := e2etest.Send(t, "GET", api+path, ""); a.Status != 200 || !strings.Contains(a.Body, text) {
			t.Errorf("%s: got %d %s, want Status 200 and %q in Body", path, a.Status, a.Body, text)
		}
	}
	sys.Call(t, "notify", map[string]any{"message": "look at this"})
	if a := e2etest.Send(t, "GET", api+"notices", ""); !strings.Contains(a.Body, `"message":"look at this"`) {
		t.Errorf("got %s, want \"\\\"message\\\":\\\"look at this\\\"\" in it", a.Body)
	}

	// An event that matches a noise rule raises no alert.
	if a := e2etest.Send(t, "POST", api+"noise", `{"action":"add","app":"web","kind":"log","pattern":"ResizeObserver"}`); a.Status != 200 || !strings.Contains(a.Body, `"pattern":"ResizeObserver"`) {
		t.Fatalf("got %d %s, want Status 200 and \"\\\"pattern\\\":\\\"ResizeObserver\\\"\" in Body", a.Status, a.Body)
	}
	if a := e2etest.Send(t, "POST", api+"noise", `{"action":"remove","rule_id":"no such rule"}`); a.Status != 400 {
		t.Errorf("got %d %s, want Status 400", a.Status, a.Body)
	}
	sys.PostLogs(t, "error", 1, func(int) string { return "ResizeObserver loop limit exceeded" })
	// A silenced alert is on the dashboard, and no agent gets it.
	if a := e2etest.Send(t, "POST", api+"silences", `{"category":"ci","minutes":5,"reason":"deploy"}`); a.Status != 200 || !strings.Contains(a.Body, `"reason":"deploy"`) {
		t.Fatalf("got %d %s, want Status 200 and \"\\\"reason\\\":\\\"deploy\\\"\" in Body", a.Status, a.Body)
	}
	awaitSilence(t, sys, "deploy")
	sys.TakeAlerts(t, 1) // the error before
	sys.PostCI(t, map[string]any{"status": "failure", "name": "silenced", "commit": "a"})
	if _, a := nextAlert(t, live); a.Category != alert.CI || !strings.Contains(a.Title, "silenced") {
		t.Errorf("on the dashboard: %+v, want Category %v and \"silenced\" in Title", a, alert.CI)
	}
	sys.WaitReceived(t, 2)
	if o := sys.Observe(t, map[string]any{}); len(o.Alerts) != 0 {
		t.Errorf("alerts of the agent = %+v, want none", o.Alerts)
	}
}

// awaitSilence waits until the agent's list of silences has one with a reason.
func awaitSilence(t *testing.T, sys *e2etest.System, reason string) {
	t.Helper()
	if !harness.Poll(t.Context(), 20*time.Second, func() bool {
		return strings.Contains(sys.Call(t, "configure", map[string]any{"action": "silence_list"}), reason)
	}) {
		t.Fatalf("silences of the agent = %s, want one with the reason %q", sys.Call(t, "configure", map[string]any{"action": "silence_list"}), reason)
	}
}

// TestDashboardReadersSurviveKills kills the whole bus again and again. A reader that
// reconnects gets every accepted alert once and in order, and so does one of a
// dashboard that runs as a process of its own.
func TestDashboardReadersSurviveKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := fmt.Sprintf("--dashboard-addr=127.0.0.1:%d", e2etest.FreePort(t))
	b, err := harness.Up(t.Context(), e2etest.Binary(t), dir, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stop the bus: %v, want no error\n%s", err, b.Log)
		}
		e2etest.CheckLog(t, b.Log)
	})
	alone := e2etest.RunUntilKilled(t, dir, "dashboard", fmt.Sprintf("--dashboard-addr=127.0.0.1:%d", e2etest.FreePort(t)))
	aloneURL := func() string { return strings.TrimSpace(strings.TrimPrefix(alone.Stdout.String(), "dashboard")) }
	if !harness.Poll(t.Context(), 20*time.Second, func() bool { return aloneURL() != "" && e2etest.Get(t, aloneURL()+"/readyz").Status == 200 }) {
		t.Fatalf("tocsin dashboard after 20s = %s%s, want it ready", alone.Stdout, alone.Log)
	}
	stays := listen(t, aloneURL(), "", 0)
	var seen, stayed []string
	var last uint64
	back := listen(t, b.DashboardURL, "", 0)
	n := 0
	post := func() {
		t.Helper()
		n++
		a, err := b.Post(t.Context(), "/ci-result", map[string]any{"status": "failure", "name": "n", "commit": e2etest.UniqueWord(n)})
		if err != nil || a.Status != 200 {
			t.Fatalf("got %v %+v, want Status 200", err, a)
		}
	}
	take := func(s *harness.Stream, into *[]string) uint64 {
		t.Helper()
		seq, a := nextAlert(t, s)
		*into = append(*into, fmt.Sprint(a.Context["commit"]))
		return seq
	}
	for range 5 {
		for range 3 {
			post()
		}
		last = take(back, &seen) // the other two may be missing or delayed
		if err := b.Kill(); err != nil {
			t.Fatal(err)
		}
		e2etest.CheckLog(t, b.Log)
		<-back.Done()
		if b, err = harness.Up(t.Context(), e2etest.Binary(t), dir, at); err != nil {
			t.Fatal(err)
		}
		post()
		back = listen(t, b.DashboardURL, "", last)
		for len(seen) < n {
			take(back, &seen)
		}
	}
	for len(stayed) < n {
		take(stays, &stayed)
	}
	for i := range n {
		want := e2etest.UniqueWord(i + 1)
		if seen[i] != want {
			t.Fatalf("alert %d of the reader that reconnects = %s, want %s", i+1, seen[i], want)
		}
		if stayed[i] != want {
			t.Fatalf("alert %d of the reader that stays connected = %s, want %s", i+1, stayed[i], want)
		}
	}
	if got := len(back.Events) + len(stays.Events); got > 0 {
		t.Errorf("readers got %d more alerts, want none twice", got)
	}
}

// TestHostAndOriginOnEveryListener checks the page, its event stream, ingest and
// the NATS websocket.
func TestHostAndOriginOnEveryListener(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	ws := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
	for url, extra := range map[string][]string{
		b.DashboardURL + "/":                                 nil,
		b.DashboardURL + "/events/stream":                    nil,
		b.DashboardURL + "/api/session":                      nil,
		b.DashboardURL + "/metrics":                          nil,
		b.IngestURL + "/metrics":                             nil,
		"http" + strings.TrimPrefix(b.NATSWSURL, "ws") + "/": ws,
	} {
		for _, header := range [][]string{
			{"Host", "evil.example"}, {"Origin", "https://evil.example"}, {"Origin", "null"}, {"Host", "evil.example", "Origin", "http://evil.example"},
		} {
			if a := e2etest.Send(t, "GET", url, "", append(header, extra...)...); a.Status != http.StatusForbidden {
				t.Errorf("%s %q: got %d %s, want Status 403", url, header, a.Status, a.Body)
			}
		}
	}
}

// TestDashboardToken checks that writes need the token if there is one.
func TestDashboardToken(t *testing.T) {
	t.Parallel()
	b, err := harness.Up(t.Context(), e2etest.Binary(t), t.TempDir(), "--token=secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stop the bus: %v, want no error\n%s", err, b.Log)
		}
	})
	for _, write := range [][2]string{{"POST", "noise"}, {"POST", "silences"}, {"POST", "acks"}, {"DELETE", "silences/x"}, {"DELETE", "acks/x"}} {
		url := b.DashboardURL + "/api/" + write[1]
		for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}} {
			if a := e2etest.Send(t, write[0], url, "{}", header...); a.Status != http.StatusUnauthorized {
				t.Errorf("%v %v: got %d, want Status 401", write, header, a.Status)
			}
		}
		if a := e2etest.Send(t, write[0], url, "{}", "Authorization", "Bearer secret"); a.Status == http.StatusUnauthorized {
			t.Errorf("%v: got %d %s, want Status other than 401", write, a.Status, a.Body)
		}
	}
	if a := e2etest.Send(t, "GET", b.DashboardURL+"/api/alerts", ""); a.Status != 200 {
		t.Errorf("a read: %d %s, want Status 200", a.Status, a.Body)
	}
}

// TestShutdownWithReaders checks that readers do not delay the shutdown, and get all
// alerts that were raised before it.
func TestShutdownWithReaders(t *testing.T) {
	t.Parallel()
	b, err := harness.Up(t.Context(), e2etest.Binary(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	streams := make([]*harness.Stream, 40)
	for i := range streams {
		streams[i] = listen(t, b.DashboardURL, "", 0)
	}
	if a, err := b.Post(t.Context(), "/ci-result", map[string]any{"status": "failure", "commit": "last"}); err != nil || a.Status != 200 {
		t.Fatalf("got %v %+v, want Status 200", err, a)
	}
	started := time.Now()
	if err := b.Stop(); err != nil {
		t.Errorf("stop the bus: %v, want no error\n%s", err, b.Log)
	}
	if took := time.Since(started); took > 4*time.Second {
		t.Errorf("stop took %s, want at most 4s\n%s", took, b.Log)
	}
	e2etest.CheckLog(t, b.Log)
	for _, s := range streams {
		if _, a := nextAlert(t, s); a.Context["commit"] != "last" {
			t.Errorf("got %+v, want Context[\"commit\"] \"last\"", a)
		}
		<-s.Done()
	}
}

// TestReadersDoNotKeepTheBus checks that an open page does not keep a bus running that
// a gateway has started.
func TestReadersDoNotKeepTheBus(t *testing.T) {
	t.Parallel()
	b, err := harness.Up(t.Context(), e2etest.Binary(t), t.TempDir(), "--idle-exit=5s")
	if err != nil {
		t.Fatal(err)
	}
	listen(t, b.DashboardURL, "", 0)
	select {
	case <-b.Done():
	case <-time.After(30 * time.Second):
		t.Errorf("the bus runs after 30s, want it stopped after 5s without a gateway\n%s", b.Log)
	}
	if err := b.Kill(); err != nil {
		t.Errorf("kill the bus: %v, want no error", err)
	}
}

// TestDashboardOnAnExternalBus runs the dashboard alone on an external server. Before the
// server runs, the dashboard reports that the bus is unreachable.
func TestDashboardOnAnExternalBus(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), e2etest.FreePort(t)
	nats := fmt.Sprintf("nats://127.0.0.1:%d", port)
	p := e2etest.RunUntilKilled(t, dir, "dashboard", "--nats-url="+nats, "--dashboard-addr=127.0.0.1:0")
	var url string
	if !harness.Poll(t.Context(), 20*time.Second, func() bool {
		url = strings.TrimSpace(strings.TrimPrefix(p.Stdout.String(), "dashboard"))
		return url != ""
	}) {
		t.Fatalf("tocsin dashboard after 20s = %s%s, want its URL", p.Stdout, p.Log)
	}
	if a := e2etest.Get(t, url+"/readyz"); a.Status != 503 || !strings.Contains(a.Body, "unreachable") {
		t.Errorf("got %d %s, want Status 503 and \"unreachable\" in Body", a.Status, a.Body)
	}
	early := listen(t, url, "", 0)
	server, err := harness.Start(e2etest.NATSServer(t), dir, nil, "-js", "-sd", filepath.Join(dir, "nats"), "-a", "127.0.0.1", "-p", fmt.Sprint(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Kill(); err != nil {
			t.Errorf("kill the NATS server: %v, want no error", err)
		}
	})
	services := e2etest.RunUntilKilled(t, dir, "up", "--nats-url="+nats, "--ingest-addr=127.0.0.1:0")
	if !harness.Poll(t.Context(), 30*time.Second, func() bool { return e2etest.Get(t, url+"/readyz").Status == 200 }) {
		t.Fatalf("the dashboard is not ready after 30s, want it ready\n%s", p.Log)
	}
	ingestURL := ""
	if !harness.Poll(t.Context(), 20*time.Second, func() bool {
		_, after, found := strings.Cut(services.Stdout.String(), "ingest")
		ingestURL, _, _ = strings.Cut(strings.TrimSpace(after), "\n")
		return found
	}) {
		t.Fatalf("tocsin up after 20s = %s%s, want the URL of ingest", services.Stdout, services.Log)
	}
	if a := e2etest.Send(t, "POST", ingestURL+"/ci-result", `{"status":"failure","commit":"a"}`); a.Status != 200 {
		t.Fatalf("got %d %s, want Status 200", a.Status, a.Body)
	}
	if seq, a := nextAlert(t, early); seq != 1 || a.Context["commit"] != "a" {
		t.Errorf("got %d %+v, want 1 and Context[\"commit\"] \"a\"", seq, a)
	}
	var health struct{ Services []struct{ Service string } }
	seen := func() bool {
		_ = json.Unmarshal([]byte(e2etest.Get(t, url+"/api/health").Body), &health)
		names := fmt.Sprint(health.Services)
		return strings.Count(names, "dashboard") == 2 && strings.Contains(names, "detector") && strings.Contains(names, "ingest")
	}
	if !harness.Poll(t.Context(), 20*time.Second, seen) {
		t.Errorf("health = %+v, want two dashboards, a detector and ingest", health)
	}
	if a := e2etest.Get(t, url+"/api/session"); !strings.Contains(a.Body, `"bus":null`) {
		t.Errorf("got %s, want \"\\\"bus\\\":null\" in it", a.Body)
	}
	for _, q := range []*harness.Process{p, services} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := q.Stop(); err != nil || ctx.Err() != nil {
			t.Errorf("got %v, want Err nil\n%s", err, q.Log)
		}
		e2etest.CheckLog(t, q.Log)
	}
}
