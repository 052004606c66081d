package alerts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// The scenarios of the source specification, by its numbers, against the real
// binary. 1 to 14 are the passive mode.

// TestScenario01FreshServer: without alerts, observe has one block.
func TestScenario01FreshServer(t *testing.T) {
	sys := e2etest.Start(t)
	o := sys.Observe(t, nil)
	if o.Block != "" {
		t.Fatalf("a second block: %s", o.Block)
	}
	if !strings.HasPrefix(o.First, "{") {
		t.Fatalf("the first block is no JSON object: %s", o.First)
	}
}

// TestScenario02Regression: a regression is in the next observe.
func TestScenario02Regression(t *testing.T) {
	sys := e2etest.Start(t)
	sys.PostVitals(t, "/cart", 2500)
	sys.PostVitals(t, "/cart", 3350)
	a := sys.TakeAlerts(t, 1)[0]
	if a.Category != alert.Regression || a.Severity != alert.Warning || a.Title != "LCP regressed 34% on /cart" ||
		a.DedupKey != "regression:web:/cart:lcp_ms" || a.Source != alert.SourcePerformance {
		t.Fatalf("%+v", a)
	}
}

// TestScenario03Accumulate: several alerts come together, then the inbox is empty.
func TestScenario03Accumulate(t *testing.T) {
	sys := e2etest.Start(t)
	for i := range 3 {
		sys.PostCI(t, map[string]any{"status": "failure", "commit": fmt.Sprint("c", i), "name": "build"})
	}
	sys.WaitReceived(t, 3)
	o := sys.Observe(t, nil)
	if len(o.Alerts) != 3 || o.Summary != "" {
		t.Fatalf("%d alerts, summary %q", len(o.Alerts), o.Summary)
	}
	if o := sys.Observe(t, nil); o.Block != "" {
		t.Fatalf("told twice: %s", o.Block)
	}
}

// TestScenario04Cap: of more than 50 alerts the oldest of the least severe are
// evicted, and the summary says how many.
func TestScenario04Cap(t *testing.T) {
	sys := e2etest.Start(t)
	for i := range 60 {
		sys.PostCI(t, map[string]any{"status": "failure", "commit": fmt.Sprintf("c%02d", i)})
	}
	sys.WaitReceived(t, 60)
	o := sys.Observe(t, nil)
	if len(o.Alerts) != 50 {
		t.Fatalf("%d alerts", len(o.Alerts))
	}
	for _, a := range o.Alerts {
		if c, _ := a.Context["commit"].(string); c < "c10" {
			t.Fatalf("kept the old %s", c)
		}
	}
	if want := "50 alerts: 50 ci; 10 evicted"; !strings.HasPrefix(o.Summary, want) {
		t.Fatalf("got the summary %q, want it to begin with %q", o.Summary, want)
	}
}

// TestScenario05CI: a valid result becomes an alert.
func TestScenario05CI(t *testing.T) {
	sys := e2etest.Start(t)
	sys.PostCI(t, map[string]any{
		"status": "failure", "source": "github-actions", "ref": "main", "commit": "abc123", "summary": "12 tests passed, 2 failed",
		"failures": []map[string]string{{"name": "test_login", "message": "Expected 200, got 401"}}, "url": "https://ci.example/run/123", "duration_ms": 45000,
	})
	a := sys.TakeAlerts(t, 1)[0]
	if a.Category != alert.CI || a.Severity != alert.Error || a.Source != alert.SourceCI || a.URL != "https://ci.example/run/123" ||
		!strings.Contains(a.Detail, "12 tests passed, 2 failed") || !strings.Contains(a.Detail, "test_login") {
		t.Fatalf("%+v", a)
	}
}

// TestScenario06BadCI: an invalid body is a 400 and no alert.
func TestScenario06BadCI(t *testing.T) {
	sys := e2etest.Start(t)
	for _, body := range []string{`{"status":"meh"}`, `{`, `[]`, `{"source":"custom"}`, `{"status":"failure","source":"jenkins"}`} {
		a := sys.Post(t, "/ci-result", []byte(body))
		if a.Status != 400 || !strings.Contains(a.Body, `"ok":false`) {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	sys.PostCI(t, map[string]any{"status": "success", "commit": "mark"})
	if got := sys.TakeAlerts(t, 1); got[0].Severity != alert.Info {
		t.Fatalf("%+v", got)
	}
}

// TestScenario07SameCommitTwice: an update, not a second alert; but failure,
// success, failure is three.
func TestScenario07SameCommitTwice(t *testing.T) {
	sys := e2etest.Start(t)
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "abc", "name": "build", "summary": "1 failed"})
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "abc", "name": "build", "summary": "2 failed"})
	sys.PostCI(t, map[string]any{"status": "success", "commit": "mark"})
	sys.WaitReceived(t, 3)
	o := sys.Observe(t, nil)
	if len(o.Alerts) != 2 || o.Alerts[0].Count > 1 || !strings.Contains(o.Alerts[0].Detail, "2 failed") {
		t.Fatalf("%s", o.Block)
	}
	sys.PostCI(t, map[string]any{"status": "success", "commit": "abc", "name": "build"})
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "abc", "name": "build"})
	sys.WaitReceived(t, 5)
	o = sys.Observe(t, map[string]any{"what": "ci"})
	if len(o.Alerts) != 2 {
		t.Fatalf("success, failure: %s", o.Block)
	}
	if n := strings.Count(o.First, `"commit":"abc"`); n != 3 || !strings.Contains(o.First, "2 failed") || strings.Contains(o.First, "1 failed") {
		t.Fatalf("failure, success, failure are three stored results, and the first was updated: %s", o.First)
	}
}

// TestTellingNames: a pipeline and a circuit may be named after secrets. Their
// alerts stay apart.
func TestTellingNames(t *testing.T) {
	sys := e2etest.Start(t)
	for _, status := range []string{"failure", "success", "failure"} {
		sys.PostCI(t, map[string]any{"status": status, "commit": "abc", "name": "refresh-token"})
	}
	for _, state := range []string{"open", "half_open", "closed"} {
		sys.PostEvents(t, map[string]any{"kind": "circuit", "app": "web", "circuit": map[string]any{"name": "token", "state": state}})
	}
	sys.WaitReceived(t, 6)
	if o := sys.Observe(t, nil); len(o.Alerts) != 6 {
		t.Fatalf("%s", o.Block)
	}
}

// TestScenario08Correlated: a regression and an error spike within 5 s are one.
func TestScenario08Correlated(t *testing.T) {
	sys := e2etest.Start(t)
	sys.PostVitals(t, "/cart", 1000)
	sys.PostVitals(t, "/cart", 2000)
	sys.PostLogs(t, "error", 6, func(int) string { return "payment failed for order" })
	sys.WaitReceived(t, 3) // regression, first error, spike
	o := sys.Observe(t, nil)
	var joined *alert.Alert
	for i := range o.Alerts {
		if strings.HasPrefix(o.Alerts[i].Title, "Correlated: ") {
			joined = &o.Alerts[i]
		}
	}
	if joined == nil || joined.Category != alert.Regression || joined.Severity != alert.Error || !strings.Contains(joined.Detail, " | ") {
		t.Fatalf("%s", o.Block)
	}
}

// TestScenario09Order: errors, then warnings, then info; newest first.
func TestScenario09Order(t *testing.T) {
	sys := e2etest.Start(t)
	sys.PostCI(t, map[string]any{"status": "success", "commit": "a"})
	sys.PostEvents(t, map[string]any{"kind": "security", "app": "web", "security": map[string]any{"type": "csp"}})
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "b"})
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "c"})
	sys.WaitReceived(t, 4)
	o := sys.Observe(t, nil)
	var order []string
	for _, a := range o.Alerts {
		order = append(order, string(a.Severity)+fmt.Sprint(a.Context["commit"]))
	}
	if got := strings.Join(order, " "); got != "errorc errorb warning<nil> infoa" {
		t.Fatal(got)
	}
	if o.Summary != "4 alerts: 3 ci, 1 security" { // scenario 11
		t.Fatalf("summary %q", o.Summary)
	}
}

// TestScenario10Dedup: a repeated regression is one alert with a count.
func TestScenario10Dedup(t *testing.T) {
	sys := e2etest.Start(t)
	sys.PostVitals(t, "/cart", 1000)
	for range 3 {
		sys.PostVitals(t, "/cart", 5000)
	}
	sys.WaitReceived(t, 2) // the third of them has a median of 5000 before it
	o := sys.Observe(t, nil)
	if len(o.Alerts) != 1 || o.Alerts[0].Count < 2 {
		t.Fatalf("%s", o.Block)
	}
}

// TestScenario12Anomaly: more than three times the average is a spike, told once.
func TestScenario12Anomaly(t *testing.T) {
	sys := e2etest.Start(t)
	sys.PostLogs(t, "error", 12, func(int) string { return "boom" })
	sys.WaitReceived(t, 2)
	spikes := 0
	for _, a := range sys.Observe(t, nil).Alerts {
		if a.Category == alert.Anomaly {
			spikes++
			if a.Severity != alert.Error || a.Source != alert.SourceAnomaly {
				t.Fatalf("%+v", a)
			}
		}
	}
	if spikes != 1 {
		t.Fatalf("%d spikes", spikes)
	}
}

// TestScenario13Threshold: each change of memory pressure is told.
func TestScenario13Threshold(t *testing.T) {
	sys := e2etest.Start(t)
	for _, used := range []int{500, 800, 950, 100} {
		sys.PostEvents(t, map[string]any{"kind": "memory", "app": "web", "memory": map[string]any{"used_bytes": used, "limit_bytes": 1000}})
	}
	sys.PostEvents(t, map[string]any{"kind": "circuit", "app": "web", "circuit": map[string]any{"name": "db", "state": "open", "reason": "timeouts"}})
	sys.WaitReceived(t, 4)
	got := map[string]alert.Severity{}
	for _, a := range sys.Observe(t, nil).Alerts {
		got[a.DedupKey] = a.Severity
	}
	want := map[string]alert.Severity{
		"threshold:web:memory:soft": alert.Warning, "threshold:web:memory:hard": alert.Error,
		"threshold:web:memory:normal": alert.Info, "threshold:web:circuit:db:open": alert.Error,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// TestScenario14Noise: auto-detection that finds a pattern is told.
func TestScenario14Noise(t *testing.T) {
	sys := e2etest.Start(t)
	sys.PostLogs(t, "info", 25, func(i int) string { return fmt.Sprintf("rendered frame %d in %d ms", i, i*3) })
	out := sys.Call(t, "configure", map[string]any{"action": "noise", "noise_action": "auto_detect", "app": "web"})
	if !strings.Contains(out, "rendered frame") {
		t.Fatalf("auto_detect: %s", out)
	}
	a := sys.TakeAlerts(t, 1)[0]
	if a.Category != alert.Noise || a.Severity != alert.Info || a.Source != alert.SourceNoise {
		t.Fatalf("%+v", a)
	}
}

// 15 to 24 are the active mode.

// TestScenario15to17Switch: enable starts notifications, status counts them,
// disable stops them.
func TestScenario15to17Switch(t *testing.T) {
	sys := e2etest.Start(t)
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "before"})
	sys.WaitReceived(t, 1)
	on := sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "throttle_seconds": 1})
	if on != `{"status":"enabled","config":{"enabled":true,"events":["all"],"throttle_seconds":1,"severity_min":"warning","url":""}}` {
		t.Fatalf("enable: %s", on)
	}
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "after"})
	n := sys.NextNotification(t, 10*time.Second)
	if n.Data.Category != "ci" || n.Level != "error" || n.Logger != "tocsin" || n.Data.Context["commit"] != "after" {
		t.Fatalf("%+v", n)
	}
	status := sys.Call(t, "configure", map[string]any{"action": "streaming", "streaming_action": "status"})
	if !strings.HasSuffix(status, `"notify_count":1,"pending":0,"suppressed":0,"dropped":0}`) {
		t.Fatalf("status: %s", status)
	}
	if off := sys.Call(t, "configure_streaming", map[string]any{"action": "disable"}); off != `{"status":"disabled","pending_cleared":0}` {
		t.Fatalf("disable: %s", off)
	}
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "off"})
	sys.WaitReceived(t, 3)
	sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "throttle_seconds": 1})
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "again"})
	if n := sys.NextNotification(t, 10*time.Second); n.Data.Context["commit"] != "again" {
		t.Fatalf("notified while off: %+v", n)
	}
}

// TestScenario18to20Filters: category, URL and severity.
func TestScenario18to20Filters(t *testing.T) {
	security := map[string]any{"kind": "security", "app": "web", "security": map[string]any{"type": "csp"}}
	request := func(path string, status int) map[string]any {
		return map[string]any{"kind": "network", "app": "web", "network": map[string]any{"method": "GET", "url": path, "status": status}}
	}
	newLog := map[string]any{"kind": "log", "app": "web", "log": map[string]any{"level": "error", "message": "a new error"}}
	for name, c := range map[string]struct {
		config   map[string]any
		filtered map[string]any
		passes   map[string]any
		category string
	}{
		"18 category": {config: map[string]any{"events": []string{"errors"}}, filtered: request("/api/x", 500), passes: newLog, category: "errors"},
		"19 url":      {config: map[string]any{"url_filter": "/api/"}, filtered: request("/home", 500), passes: request("/api/x", 500), category: "network_errors"},
		"20 severity": {config: map[string]any{"severity_min": "error"}, filtered: security, passes: request("/api/x", 500), category: "network_errors"},
	} {
		t.Run(name, func(t *testing.T) {
			sys := e2etest.Start(t)
			c.config["action"] = "enable"
			sys.Call(t, "configure_streaming", c.config)
			sys.PostEvents(t, c.filtered)
			sys.PostEvents(t, c.passes)
			if n := sys.NextNotification(t, 10*time.Second); n.Data.Category != c.category || n.Data.Count > 1 {
				t.Fatalf("%+v", n)
			}
		})
	}
}

// TestScenario21Throttle: of three within a second the first goes out at once
// and the others in one batch when the throttle ends.
func TestScenario21Throttle(t *testing.T) {
	sys := e2etest.Start(t)
	sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "throttle_seconds": 3})
	for i := range 3 {
		sys.PostCI(t, map[string]any{"status": "failure", "commit": fmt.Sprint("c", i)})
	}
	first, second := sys.NextNotification(t, 5*time.Second), sys.NextNotification(t, 10*time.Second)
	gap := second.At.Sub(first.At)
	if first.Data.Category != "ci" || second.Data.Category != "batch" || second.Data.Count != 2 || second.Data.Title != "2 alerts: 2 ci" {
		t.Fatalf("%s\n%s", first.Raw, second.Raw)
	}
	if gap < 2900*time.Millisecond || gap > 6*time.Second {
		t.Fatalf("the batch came after %s", gap)
	}
}

// TestScenario23Dedup: the same error five times is notified once. Five within
// 10 s are a spike as well, which is another alert.
func TestScenario23Dedup(t *testing.T) {
	sys := e2etest.Start(t)
	sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "throttle_seconds": 1})
	for range 5 {
		sys.PostEvents(t, map[string]any{"kind": "network", "app": "web", "network": map[string]any{"method": "POST", "url": "/api/users", "status": 500}})
	}
	first, second := sys.NextNotification(t, 10*time.Second), sys.NextNotification(t, 10*time.Second)
	if first.Data.DedupKey != "POST:/api/users:500" || first.Data.Title != "Server error: POST /api/users → 500" {
		t.Fatalf("%s", first.Raw)
	}
	if second.Data.Category != "anomaly" {
		t.Fatalf("%s", second.Raw)
	}
	ok := harness.Poll(t.Context(), 10*time.Second, func() bool {
		return strings.HasSuffix(sys.Call(t, "configure_streaming", map[string]any{"action": "status"}), `"notify_count":2,"pending":0,"suppressed":4,"dropped":0}`)
	})
	if !ok {
		t.Fatal(sys.Call(t, "configure_streaming", map[string]any{"action": "status"}))
	}
}

// TestScenario24Redaction: a header with a secret never reaches an agent.
func TestScenario24Redaction(t *testing.T) {
	sys := e2etest.Start(t)
	sys.Call(t, "configure_streaming", map[string]any{"action": "enable"})
	const secret = "s3cr3tvalue0123456789"
	sys.PostEvents(t, map[string]any{"kind": "network", "app": "web", "network": map[string]any{
		"method": "GET", "url": "/api/me?access_token=" + secret, "status": 500, "request_headers": map[string]string{"Authorization": "Bearer " + secret},
	}})
	n := sys.NextNotification(t, 10*time.Second)
	o := sys.Observe(t, map[string]any{"what": "network"})
	for what, text := range map[string]string{"notification": n.Raw, "first block": o.First, "alerts": o.Block} {
		if text == "" || strings.Contains(text, secret) {
			t.Errorf("%s: %s", what, text)
		}
	}
	if !strings.Contains(o.First, "[REDACTED]") {
		t.Errorf("nothing was masked: %s", o.First)
	}
}

// TestScenario22RateLimit: of 15 alerts in a minute 12 go out at once and three
// in one batch when the sliding minute has room.
func TestScenario22RateLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes over a minute")
	}
	sys := e2etest.Start(t)
	sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "throttle_seconds": 1})
	tick := time.NewTicker(1100 * time.Millisecond)
	defer tick.Stop()
	var begun time.Time
	for i := range 15 {
		sys.PostCI(t, map[string]any{"status": "failure", "commit": fmt.Sprint("c", i)})
		if i < 12 {
			if n := sys.NextNotification(t, 5*time.Second); n.Data.Category != "ci" {
				t.Fatalf("alert %d: %s", i, n.Raw)
			}
		}
		if i == 0 {
			begun = time.Now()
		}
		<-tick.C
	}
	batch := sys.NextNotification(t, 70*time.Second)
	if batch.Data.Category != "batch" || batch.Data.Count != 3 {
		t.Fatalf("%s", batch.Raw)
	}
	if at := batch.At.Sub(begun); at < 59*time.Second || at > 65*time.Second {
		t.Fatalf("the batch came after %s", at)
	}
}
