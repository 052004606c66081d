package alerts

import (
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// kind returns how an alert is delivered, with its title.
func kind(a alert.Alert) string {
	switch {
	case a.Resolved:
		return "over: " + a.Title
	case a.Resolves != "":
		return "end: " + a.Title
	default:
		return "raised: " + a.Title
	}
}

func kinds(alerts []alert.Alert) map[string]alert.Severity {
	all := map[string]alert.Severity{}
	for _, a := range alerts {
		all[kind(a)] = a.Severity
	}
	return all
}

func equal(t *testing.T, got []alert.Alert, want map[string]alert.Severity) {
	t.Helper()
	all := kinds(got)
	for k, severity := range want {
		if all[k] != severity {
			t.Errorf("%q is %q, want %q", k, all[k], severity)
		}
	}
	if len(all) != len(want) {
		t.Errorf("delivered %v, want %v", all, want)
	}
}

// TestResolvedBeforeDelivery checks that an alert that was resolved while it was
// pending is one line. Only the end of a CI failure is an alert of its own.
func TestResolvedBeforeDelivery(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	for _, lcp := range []float64{2500, 3350, 2500} {
		sys.PostVitals(t, "/cart", lcp)
	}
	sys.PostCI(t, map[string]any{"status": "failure", "ref": "main", "commit": "a", "name": "build", "summary": "2 failed"})
	sys.PostCI(t, map[string]any{"status": "success", "ref": "main", "commit": "b", "name": "build"})
	sys.WaitReceived(t, 4)
	o := sys.Observe(t, nil)
	equal(t, o.Alerts, map[string]alert.Severity{
		"over: Resolved: LCP regressed 34% on /cart": alert.Warning,
		"over: Resolved: CI failure: build on main":  alert.Error,
		"end: CI success: build on main":             alert.Info,
	})
	for _, a := range o.Alerts {
		if a.Resolved && (a.Detail == "" || len(a.Context) > 0) {
			t.Errorf("got %+v, want its detail and no context", a)
		}
	}
}

// TestResolvedAfterDelivery checks that the end of a delivered alert is an alert of its
// own, even if the detector was killed in between.
func TestResolvedAfterDelivery(t *testing.T) {
	t.Parallel()
	killed, err := harness.Up(t.Context(), e2etest.Binary(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sys := &e2etest.System{Bus: killed, Agent: e2etest.Join(t, killed, "e2e")}
	sys.PostVitals(t, "/cart", 2500)
	sys.PostVitals(t, "/cart", 3350)
	sys.PostCI(t, map[string]any{"status": "failure", "ref": "main", "commit": "a", "name": "build"})
	raised := map[string]string{}
	for _, a := range sys.TakeAlerts(t, 2) {
		raised[a.DedupKey] = a.ID
	}
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	e2etest.CheckLog(t, killed.Log)
	sys.Bus = e2etest.UpIn(t, killed.StateDir)
	sys.PostVitals(t, "/cart", 2500)
	sys.PostCI(t, map[string]any{"status": "success", "ref": "main", "commit": "b", "name": "build"})
	got := sys.TakeAlerts(t, 2)
	equal(t, got, map[string]alert.Severity{
		"end: Resolved: LCP regressed on /cart": alert.Info,
		"end: CI success: build on main":        alert.Info,
	})
	for _, a := range got {
		if raised[a.DedupKey] == "" || a.Resolves != raised[a.DedupKey] {
			t.Errorf("%s resolves %q, want the alert raised with that key: %v", a.DedupKey, a.Resolves, raised)
		}
	}
}
