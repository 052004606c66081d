package alerts

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestCauseFirst checks that a failed deploy and its consequences in the next seconds
// are one group with the CI result on top. An alert of another app is not in the group,
// and one that arrives after the group was delivered names its cause.
func TestCauseFirst(t *testing.T) {
	t.Parallel()
	const commit = "9f3c2ab1d2e3f405162738495a6b7c8d9e0f1a2b"
	sys := e2etest.Start(t)
	of := func(kind string, payload map[string]any) map[string]any {
		return map[string]any{"kind": kind, "app": "web", "url": "http://localhost:3000/cart?tab=1", "release": "web@" + commit[:8], kind: payload}
	}
	for range 4 {
		sys.PostVitals(t, "/cart", 1000)
	}
	sys.PostEvents(t, map[string]any{"kind": "log", "app": "shop", "log": map[string]any{"level": "error", "message": "the printer is out of paper"}})
	sys.PostCI(t, map[string]any{"status": "failure", "commit": commit, "name": "deploy", "ref": "main", "summary": "1 of 3 pods is ready"})
	sys.PostEvents(t,
		of("network", map[string]any{"method": "POST", "url": "http://localhost:3000/api/cart/42", "status": 500}),
		of("log", map[string]any{"level": "error", "message": "POST /api/cart/42 failed"}),
		of("vitals", map[string]any{"lcp_ms": 1300}),
	)
	sys.WaitReceived(t, 5)
	o := sys.Observe(t, nil)
	var titles []string
	for _, a := range o.Alerts {
		titles = append(titles, a.Title)
	}
	if len(o.Alerts) != 5 || o.Summary != "5 alerts: 1 regression, 2 errors, 1 network_errors, 1 ci" {
		t.Fatalf("got %s, want 5 entries in Alerts and Summary \"5 alerts: 1 regression, 2 errors, 1 network_errors, 1 ci\"", o.Block)
	}
	cause := o.Alerts[0]
	if cause.Category != alert.CI || cause.Symptoms != 3 || cause.InhibitedBy != "" ||
		cause.Reason != "4 alerts of web within 10 s name commit 9f3c2ab1d2e3; the failed CI run came first" {
		t.Errorf("got %s, want Category %v, Symptoms 3, no InhibitedBy and Reason \"4 alerts of web within 10 s name commit 9f3c2ab1d2e3; the failed CI run came first\"\n%+v", strings.Join(titles, "\n"), alert.CI, cause)
	}
	for i, category := range []alert.Category{alert.Errors, alert.NetworkErrors, alert.Regression} {
		if a := o.Alerts[1+i]; a.InhibitedBy != cause.ID || a.Symptoms != 0 || a.Reason != "" || a.Context[alert.ReleaseKey] != "web@9f3c2ab1" || a.Context[alert.PageKey] != "/cart" {
			t.Errorf("alert %d = %+v, want a symptom of %s with the category %s", i, a, cause.ID, category)
		}
	}
	if a := o.Alerts[4]; a.App != "shop" || a.InhibitedBy != "" {
		t.Errorf("got %+v, want App \"shop\" and no InhibitedBy", a)
	}

	for range 3 {
		sys.PostEvents(t, of("action", map[string]any{"type": "click", "target": "#pay"}))
	}
	a := sys.TakeAlerts(t, 1)[0]
	want := cause.ID
	if a.Timestamp.Sub(cause.Timestamp) > alert.CauseWindow { // a busy machine
		want = ""
	}
	if a.Category != alert.UserFrustration || a.InhibitedBy != want {
		t.Errorf("%s after it, want it under %q: %+v", a.Timestamp.Sub(cause.Timestamp), want, a)
	}
	if strings.Contains(sys.Observe(t, map[string]any{"what": "alerts"}).First, "inhibited_by") {
		t.Error("the alert history has inhibited_by, want the alerts as they were published")
	}
}
