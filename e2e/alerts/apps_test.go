package alerts

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// TestAppAmongManyNewApps posts 11 times 100 events, each of another app, as any page
// could. An app that has raised an alert keeps its place: it is in the status, its
// known error is not new, and its regression is found.
func TestAppAmongManyNewApps(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	for range 20 {
		sys.PostVitals(t, "/cart", 1000)
	}
	sys.PostLogs(t, "error", 1, func(int) string { return "boom" })
	if first := sys.TakeAlerts(t, 1); len(first) != 1 || first[0].Category != alert.Errors {
		t.Fatalf("got %+v, want 1 of them and Category %v", first, alert.Errors)
	}
	for post := range 11 {
		var all []map[string]any
		for i := range 100 {
			all = append(all, map[string]any{"kind": "log", "app": fmt.Sprintf("app%d-%d", post, i), "log": map[string]any{"level": "info", "message": "hello"}})
		}
		sys.PostEvents(t, all...)
	}
	sys.PostLogs(t, "error", 1, func(int) string { return "boom" })
	sys.PostVitals(t, "/cart", 5000)
	sys.WaitReceived(t, 1)
	got := sys.TakeAlerts(t, 1)
	if len(got) != 1 || got[0].Category != alert.Regression || got[0].App != "web" {
		t.Errorf("got %+v, want one regression of web", got)
	}
	var status query.StatusReply
	if err := json.Unmarshal([]byte(sys.Observe(t, map[string]any{"what": "status"}).First), &status); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(status.Apps, func(a query.AppStatus) bool { return a.App == "web" }) || status.Detector.AppsNotTracked != 101 {
		t.Errorf("got %d apps and %d not tracked, want web among them and 101", len(status.Apps), status.Detector.AppsNotTracked)
	}
}
