package e2e

import (
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// loads posts loads of /cart on a device, all in one batch.
func (w *world) loads(t *testing.T, n int, lcp float64, device any) {
	t.Helper()
	batch := make([]map[string]any, n)
	for i := range batch {
		batch[i] = map[string]any{
			"kind": "vitals", "app": "web", "url": "http://localhost:3000/cart", "vitals": map[string]any{"lcp_ms": lcp, "device": device},
		}
	}
	w.events(t, batch...)
}

// TestRegressionIsConfirmed: a page that becomes slower on telephones, which are
// slower than desktops anyway, is raised once it is sure, and resolved once it is as
// before and not earlier; what is usual survives that the detector is killed.
func TestRegressionIsConfirmed(t *testing.T) {
	killed, err := harness.Up(t.Context(), binary, t.TempDir(), "--regression", "confirmed")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{bus: killed, agent: join(t, killed, "e2e")}
	for range 5 {
		w.loads(t, 5, 3000, "mobile")
		w.loads(t, 5, 1000, "desktop")
	}
	w.loads(t, 1, 1000, 7) // no class of devices: none
	w.loads(t, 5, 4000, "mobile")
	w.settle(t, 2)
	found := w.alerts(t, 1)
	equal(t, found, map[string]alert.Severity{"raised: LCP regressed 33% on /cart (mobile)": alert.Warning})
	if c := found[0].Context; c["confidence"] != "confirmed" || c["device"] != "mobile" || found[0].DedupKey != "regression:web:/cart:lcp_ms:mobile" || found[0].Count != 2 {
		t.Errorf("%+v", found[0])
	}
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	noRace(t, killed.Log)
	if w.bus, err = upIn(t, killed.StateDir, "--regression", "confirmed"); err != nil {
		t.Fatal(err)
	}
	w.loads(t, 25, 4100, "mobile")
	w.loads(t, 3, 3010, "mobile")
	resolved := w.alerts(t, 1)
	equal(t, resolved, map[string]alert.Severity{"end: Resolved: LCP regressed on /cart (mobile)": alert.Info})
	if resolved[0].Detail != "LCP 3010 ms (median of 5 loads), baseline 3000 ms (20 loads)" {
		t.Errorf("%s", resolved[0].Detail)
	}
}
