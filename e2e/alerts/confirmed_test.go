package alerts

import (
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// loads posts n loads of /cart on a device, in one batch.
func loads(t *testing.T, sys *e2etest.System, n int, lcp float64, device any) {
	t.Helper()
	batch := make([]map[string]any, n)
	for i := range batch {
		batch[i] = map[string]any{
			"kind": "vitals", "app": "web", "url": "http://localhost:3000/cart", "vitals": map[string]any{"lcp_ms": lcp, "device": device},
		}
	}
	sys.PostEvents(t, batch...)
}

// TestRegressionIsConfirmed checks that a page that becomes slower on phones, which are
// slower than desktops anyway, raises an alert once it is certain, and resolves it once
// the page is as fast as before. The baseline survives a kill of the detector.
func TestRegressionIsConfirmed(t *testing.T) {
	t.Parallel()
	killed, err := harness.Up(t.Context(), e2etest.Binary(t), t.TempDir(), "--regression", "confirmed")
	if err != nil {
		t.Fatal(err)
	}
	sys := &e2etest.System{Bus: killed, Agent: e2etest.Join(t, killed, "e2e")}
	for range 5 {
		loads(t, sys, 5, 3000, "mobile")
		loads(t, sys, 5, 1000, "desktop")
	}
	loads(t, sys, 1, 1000, 7) // not a class of devices
	loads(t, sys, 5, 4000, "mobile")
	sys.WaitReceived(t, 2)
	found := sys.TakeAlerts(t, 1)
	equal(t, found, map[string]alert.Severity{"raised: LCP regressed 33% on /cart (mobile)": alert.Warning})
	if c := found[0].Context; c["confidence"] != "confirmed" || c["device"] != "mobile" || found[0].DedupKey != "regression:web:/cart:lcp_ms:mobile" || found[0].Count != 2 {
		t.Errorf("got %+v, want c[\"confidence\"] \"confirmed\", c[\"device\"] \"mobile\", DedupKey \"regression:web:/cart:lcp_ms:mobile\" and Count 2", found[0])
	}
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	e2etest.CheckLog(t, killed.Log)
	sys.Bus = e2etest.UpIn(t, killed.StateDir, "--regression", "confirmed")
	loads(t, sys, 25, 4100, "mobile")
	loads(t, sys, 3, 3010, "mobile")
	resolved := sys.TakeAlerts(t, 1)
	equal(t, resolved, map[string]alert.Severity{"end: Resolved: LCP regressed on /cart (mobile)": alert.Info})
	if resolved[0].Detail != "LCP 3010 ms (median of 5 loads), baseline 3000 ms (20 loads)" {
		t.Errorf("got %s, want \"LCP 3010 ms (median of 5 loads), baseline 3000 ms (20 loads)\"", resolved[0].Detail)
	}
}
