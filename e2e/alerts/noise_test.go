package alerts

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestFailingHealthCheck checks that health checks become noise, and that a failing one
// still raises one alert.
func TestFailingHealthCheck(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"spec", "mined"} {
		t.Run(by, func(t *testing.T) {
			sys := e2etest.Start(t, "--noise="+by)
			check := func(n, status int) {
				all := make([]map[string]any, n)
				for i := range all {
					all[i] = map[string]any{"kind": "network", "app": "web", "network": map[string]any{"method": "GET", "url": "http://localhost:3000/health", "status": status}}
				}
				sys.PostEvents(t, all...)
			}
			check(40, 200)
			sys.Call(t, "configure", map[string]any{"action": "noise", "noise_action": "auto_detect"})
			check(6, 503)
			sys.PostLogs(t, "error", 1, func(int) string { return "the end" })
			var got []alert.Alert
			ended := harness.Poll(t.Context(), 20*time.Second, func() bool {
				got = append(got, sys.Observe(t, nil).Alerts...)
				return len(ofCategory(got, alert.Errors)) > 0
			})
			if !ended {
				t.Fatalf("timed out: got %+v, want the last alert too", got)
			}
			failed := append(ofCategory(got, alert.NetworkErrors), ofCategory(got, alert.Anomaly)...)
			if len(failed) != 1 || failed[0].Title != "Server error: GET /health → 503" || failed[0].Count > 1 {
				t.Errorf("got %+v, want one alert about the failing check", failed)
			}
		})
	}
}
