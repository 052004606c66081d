package alerts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestEnableAndDisableNotifications checks that enable starts notifications, status
// counts them and disable stops them.
func TestEnableAndDisableNotifications(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "before"})
	sys.WaitReceived(t, 1)
	on := sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "throttle_seconds": 1})
	if want := `{"status":"enabled","config":{"enabled":true,"events":["all"],"throttle_seconds":1,"severity_min":"warning","url":""}}`; on != want {
		t.Fatalf("enable answers %s, want %s", on, want)
	}
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "after"})
	n := sys.NextNotification(t, 10*time.Second)
	if n.Data.Category != "ci" || n.Level != "error" || n.Logger != "tocsin" || n.Data.Context["commit"] != "after" {
		t.Fatalf("got %+v, want an error of category ci, commit \"after\", from the logger tocsin", n)
	}
	status := sys.Call(t, "configure", map[string]any{"action": "streaming", "streaming_action": "status"})
	if want := `"notify_count":1,"pending":0,"suppressed":0,"dropped":0}`; !strings.HasSuffix(status, want) {
		t.Fatalf("status = %s, want it to end with %s", status, want)
	}
	off := sys.Call(t, "configure_streaming", map[string]any{"action": "disable"})
	if want := `{"status":"disabled","pending_cleared":0}`; off != want {
		t.Fatalf("disable answers %s, want %s", off, want)
	}
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "off"})
	sys.WaitReceived(t, 3)
	sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "throttle_seconds": 1})
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "again"})
	if n := sys.NextNotification(t, 10*time.Second); n.Data.Context["commit"] != "again" {
		t.Fatalf("first notification after disable and enable: got %+v, want the one of commit \"again\"", n)
	}
}

func TestNotificationFilters(t *testing.T) {
	t.Parallel()
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
		"category": {config: map[string]any{"events": []string{"errors"}}, filtered: request("/api/x", 500), passes: newLog, category: "errors"},
		"url":      {config: map[string]any{"url_filter": "/api/"}, filtered: request("/home", 500), passes: request("/api/x", 500), category: "network_errors"},
		"severity": {config: map[string]any{"severity_min": "error"}, filtered: security, passes: request("/api/x", 500), category: "network_errors"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sys := e2etest.Start(t)
			c.config["action"] = "enable"
			sys.Call(t, "configure_streaming", c.config)
			sys.PostEvents(t, c.filtered)
			sys.PostEvents(t, c.passes)
			if n := sys.NextNotification(t, 10*time.Second); n.Data.Category != c.category || n.Data.Count > 1 {
				t.Fatalf("got %+v, want one alert of category %s", n, c.category)
			}
		})
	}
}

// TestThrottle checks that of three alerts within a second the first is sent at once
// and the others in one batch when the throttle ends.
func TestThrottle(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "throttle_seconds": 3})
	for i := range 3 {
		sys.PostCI(t, map[string]any{"status": "failure", "commit": fmt.Sprint("c", i)})
	}
	first, second := sys.NextNotification(t, 5*time.Second), sys.NextNotification(t, 10*time.Second)
	gap := second.At.Sub(first.At)
	if first.Data.Category != "ci" || second.Data.Category != "batch" || second.Data.Count != 2 || second.Data.Title != "2 alerts: 2 ci" {
		t.Fatalf("got %s\nand %s\nwant a notification of category ci and a batch \"2 alerts: 2 ci\"", first.Raw, second.Raw)
	}
	if gap < 2900*time.Millisecond || gap > 6*time.Second {
		t.Fatalf("the batch came after %s, want 3 s", gap)
	}
}

// TestDuplicateNotifications checks that the same error five times is notified once.
// Five within 10 s are also a spike, which is another alert.
func TestDuplicateNotifications(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "throttle_seconds": 1})
	for range 5 {
		sys.PostEvents(t, map[string]any{"kind": "network", "app": "web", "network": map[string]any{"method": "POST", "url": "/api/users", "status": 500}})
	}
	first, second := sys.NextNotification(t, 10*time.Second), sys.NextNotification(t, 10*time.Second)
	if first.Data.DedupKey != "POST:/api/users:500" || first.Data.Title != "Server error: POST /api/users → 500" {
		t.Fatalf("first notification: got %s, want the server error of POST /api/users", first.Raw)
	}
	if second.Data.Category != "anomaly" {
		t.Fatalf("second notification: got %s, want the category anomaly", second.Raw)
	}
	const want = `"notify_count":2,"pending":0,"suppressed":4,"dropped":0}`
	var status string
	if !harness.Poll(t.Context(), 10*time.Second, func() bool {
		status = sys.Call(t, "configure_streaming", map[string]any{"action": "status"})
		return strings.HasSuffix(status, want)
	}) {
		t.Fatalf("status = %s, want it to end with %s", status, want)
	}
}

// TestSecretsAreMasked checks that a header with a secret never reaches an agent.
func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
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
			t.Errorf("%s = %q, want text without the secret", what, text)
		}
	}
	if !strings.Contains(o.First, "[REDACTED]") {
		t.Errorf("first block = %s, want [REDACTED] in it", o.First)
	}
}

// TestRateLimit checks that of 15 alerts in a minute 12 are sent at once and three in
// one batch when the sliding minute has room.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes over a minute")
	}
	sys := e2etest.Start(t)
	sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "throttle_seconds": 1})
	tick := time.NewTicker(1100 * time.Millisecond)
	defer tick.Stop()
	var started time.Time
	for i := range 15 {
		sys.PostCI(t, map[string]any{"status": "failure", "commit": fmt.Sprint("c", i)})
		if i < 12 {
			if n := sys.NextNotification(t, 5*time.Second); n.Data.Category != "ci" {
				t.Fatalf("notification %d: got %s, want the category ci", i, n.Raw)
			}
		}
		if i == 0 {
			started = time.Now()
		}
		<-tick.C
	}
	batch := sys.NextNotification(t, 70*time.Second)
	if batch.Data.Category != "batch" || batch.Data.Count != 3 {
		t.Fatalf("got %s, want a batch of 3 alerts", batch.Raw)
	}
	if at := batch.At.Sub(started); at < 59*time.Second || at > 65*time.Second {
		t.Fatalf("the batch came after %s, want 60 s", at)
	}
}
