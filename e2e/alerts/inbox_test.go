package alerts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestObserveWithoutAlerts(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	o := sys.Observe(t, nil)
	if o.Block != "" {
		t.Errorf("alerts block = %q, want none", o.Block)
	}
	if !strings.HasPrefix(o.First, "{") {
		t.Errorf("first block = %q, want a JSON object", o.First)
	}
}

func TestRegressionIsInTheNextObserve(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	sys.PostVitals(t, "/cart", 2500)
	sys.PostVitals(t, "/cart", 3350)
	e2etest.CheckAlert(t, sys.TakeAlerts(t, 1)[0], alert.Alert{
		Category: alert.Regression, Severity: alert.Warning, Title: "LCP regressed 34% on /cart",
		DedupKey: "regression:web:/cart:lcp_ms", Source: alert.SourcePerformance,
	})
}

// TestObserveTakesAllAlerts checks that one observe takes all pending alerts and the
// next one none.
func TestObserveTakesAllAlerts(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	for i := range 3 {
		sys.PostCI(t, map[string]any{"status": "failure", "commit": fmt.Sprint("c", i), "name": "build"})
	}
	sys.WaitReceived(t, 3)
	o := sys.Observe(t, nil)
	if len(o.Alerts) != 3 {
		t.Errorf("first observe: got %d alerts, want 3", len(o.Alerts))
	}
	if o.Summary != "" {
		t.Errorf("summary of 3 alerts = %q, want none", o.Summary)
	}
	if o := sys.Observe(t, nil); o.Block != "" {
		t.Errorf("second observe: alerts block = %q, want none", o.Block)
	}
}

// TestInboxEvictsTheOldest checks that of more than 50 alerts the oldest of the least
// severe are evicted, and that the summary has their number.
func TestInboxEvictsTheOldest(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	for i := range 60 {
		sys.PostCI(t, map[string]any{"status": "failure", "commit": fmt.Sprintf("c%02d", i)})
	}
	sys.WaitReceived(t, 60)
	o := sys.Observe(t, nil)
	if len(o.Alerts) != 50 {
		t.Fatalf("got %d alerts, want 50", len(o.Alerts))
	}
	for _, a := range o.Alerts {
		if c, _ := a.Context["commit"].(string); c < "c10" {
			t.Fatalf("the inbox kept the alert of commit %q, want c10 and later", c)
		}
	}
	if want := "50 alerts: 50 ci; 10 evicted"; !strings.HasPrefix(o.Summary, want) {
		t.Fatalf("summary = %q, want it to begin with %q", o.Summary, want)
	}
}

func TestCIResultRaisesAnAlert(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	sys.PostCI(t, map[string]any{
		"status": "failure", "source": "github-actions", "ref": "main", "commit": "abc123", "summary": "12 tests passed, 2 failed",
		"failures": []map[string]string{{"name": "test_login", "message": "Expected 200, got 401"}}, "url": "https://ci.example/run/123", "duration_ms": 45000,
	})
	e2etest.CheckAlert(t, sys.TakeAlerts(t, 1)[0],
		alert.Alert{Category: alert.CI, Severity: alert.Error, Source: alert.SourceCI, URL: "https://ci.example/run/123"},
		"12 tests passed, 2 failed", "test_login")
}

// TestInvalidCIResultIsRefused checks that an invalid body is answered with 400 and
// raises no alert.
func TestInvalidCIResultIsRefused(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	for _, body := range []string{`{"status":"meh"}`, `{`, `[]`, `{"source":"custom"}`, `{"status":"failure","source":"jenkins"}`} {
		a := sys.Post(t, "/ci-result", []byte(body))
		if a.Status != 400 || !strings.Contains(a.Body, `"ok":false`) {
			t.Errorf("POST %s: got %d %s, want 400 and \"ok\":false", body, a.Status, a.Body)
		}
	}
	sys.PostCI(t, map[string]any{"status": "success", "commit": "mark"})
	e2etest.CheckAlert(t, sys.TakeAlerts(t, 1)[0], alert.Alert{Severity: alert.Info})
}

// TestRepeatedCIResult checks that a result with the same status updates the earlier
// one, and that failure, success, failure is three results.
func TestRepeatedCIResult(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "abc", "name": "build", "summary": "1 failed"})
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "abc", "name": "build", "summary": "2 failed"})
	sys.PostCI(t, map[string]any{"status": "success", "commit": "mark"})
	sys.WaitReceived(t, 3)
	o := sys.Observe(t, nil)
	if len(o.Alerts) != 2 || o.Alerts[0].Count > 1 || !strings.Contains(o.Alerts[0].Detail, "2 failed") {
		t.Fatalf("got %s, want 2 alerts, the first updated to \"2 failed\" and counted once", o.Block)
	}
	sys.PostCI(t, map[string]any{"status": "success", "commit": "abc", "name": "build"})
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "abc", "name": "build"})
	sys.WaitReceived(t, 5)
	o = sys.Observe(t, map[string]any{"what": "ci"})
	if len(o.Alerts) != 2 {
		t.Fatalf("after success and failure: got %s, want 2 alerts", o.Block)
	}
	if n := strings.Count(o.First, `"commit":"abc"`); n != 3 || !strings.Contains(o.First, "2 failed") || strings.Contains(o.First, "1 failed") {
		t.Fatalf("stored results of abc: got %s, want 3, the first updated from \"1 failed\" to \"2 failed\"", o.First)
	}
}

// TestNamesThatLookLikeSecrets checks that a pipeline and a circuit may be named
// "token": their alerts are not merged by what masks secrets.
func TestNamesThatLookLikeSecrets(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	for _, status := range []string{"failure", "success", "failure"} {
		sys.PostCI(t, map[string]any{"status": status, "commit": "abc", "name": "refresh-token"})
	}
	for _, state := range []string{"open", "half_open", "closed"} {
		sys.PostEvents(t, map[string]any{"kind": "circuit", "app": "web", "circuit": map[string]any{"name": "token", "state": state}})
	}
	sys.WaitReceived(t, 6)
	if o := sys.Observe(t, nil); len(o.Alerts) != 6 {
		t.Fatalf("got %d alerts, want 6: %s", len(o.Alerts), o.Block)
	}
}

// TestRegressionAndSpikeAreCorrelated checks that a regression and an error spike
// within 5 s become one alert.
func TestRegressionAndSpikeAreCorrelated(t *testing.T) {
	t.Parallel()
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
	if joined == nil {
		t.Fatalf("got %s, want an alert with the title \"Correlated: ...\"", o.Block)
	}
	e2etest.CheckAlert(t, *joined, alert.Alert{Category: alert.Regression, Severity: alert.Error}, " | ")
}

// TestOrderOfAlerts checks that errors come before warnings and info, and the newest
// first of each.
func TestOrderOfAlerts(t *testing.T) {
	t.Parallel()
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
	if got, want := strings.Join(order, " "), "errorc errorb warning<nil> infoa"; got != want {
		t.Errorf("severity and commit in order: got %q, want %q", got, want)
	}
	if want := "4 alerts: 3 ci, 1 security"; o.Summary != want {
		t.Errorf("summary = %q, want %q", o.Summary, want)
	}
}

// TestRepeatedRegressionIsCounted checks that a repeated regression is one alert with
// a count.
func TestRepeatedRegressionIsCounted(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	sys.PostVitals(t, "/cart", 1000)
	for range 3 {
		sys.PostVitals(t, "/cart", 5000)
	}
	sys.WaitReceived(t, 2) // the median is 5000 before the third
	o := sys.Observe(t, nil)
	if len(o.Alerts) != 1 || o.Alerts[0].Count < 2 {
		t.Fatalf("got %s, want one alert with a count of 2 or more", o.Block)
	}
}

// TestErrorSpikeIsRaisedOnce checks that errors at more than three times the average
// raise one alert.
func TestErrorSpikeIsRaisedOnce(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	sys.PostLogs(t, "error", 12, func(int) string { return "boom" })
	sys.WaitReceived(t, 2)
	spikes := ofCategory(sys.Observe(t, nil).Alerts, alert.Anomaly)
	if len(spikes) != 1 {
		t.Fatalf("got %d anomaly alerts, want 1: %+v", len(spikes), spikes)
	}
	e2etest.CheckAlert(t, spikes[0], alert.Alert{Severity: alert.Error, Source: alert.SourceAnomaly})
}

// TestThresholds checks that each change of memory pressure, and an open circuit, raise
// an alert.
func TestThresholds(t *testing.T) {
	t.Parallel()
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("severities by dedup key (-want +got):\n%s", diff)
	}
}

// TestNoiseAutoDetection checks that a pattern that auto_detect finds raises an alert.
func TestNoiseAutoDetection(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	sys.PostLogs(t, "info", 25, func(i int) string { return fmt.Sprintf("rendered frame %d in %d ms", i, i*3) })
	out := sys.Call(t, "configure", map[string]any{"action": "noise", "noise_action": "auto_detect", "app": "web"})
	if !strings.Contains(out, "rendered frame") {
		t.Fatalf("auto_detect answers %s, want \"rendered frame\" in it", out)
	}
	e2etest.CheckAlert(t, sys.TakeAlerts(t, 1)[0], alert.Alert{Category: alert.Noise, Severity: alert.Info, Source: alert.SourceNoise})
}
