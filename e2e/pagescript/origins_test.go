package pagescript

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestPagesOfOtherSitesAreRefused checks that they neither resolve nor raise an alert,
// and that observe explains why the telemetry of such a page is missing.
func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	for _, path := range []string{"/v1/events", "/ci-result", "/v1/logs", "/v1/reports", "/api/1/envelope/", "/v1/junit", "/webhooks/alertmanager"} {
		for _, origin := range []string{"https://evil.example", "null"} {
			a := e2etest.Send(t, "POST", sys.Bus.IngestURL+path, `{"kind":"circuit","app":"shop","circuit":{"name":"db","state":"open"}}`, "Content-Type", "text/plain", "Origin", origin)
			if a.Status != http.StatusForbidden || !strings.Contains(a.Body, "TOCSIN_ALLOWED_ORIGINS") {
				t.Errorf("%s from %s: %d %s, want 403 that names the setting", path, origin, a.Status, a.Body)
			}
		}
	}
	a := e2etest.Send(t, "POST", sys.Bus.IngestURL+"/v1/events", `{"kind":"circuit","app":"Tocsin","circuit":{"name":"ingest","state":"open"}}`, "Content-Type", "application/json")
	if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"index":0`) {
		t.Errorf("the app Tocsin: %d %s, want 400 with an index", a.Status, a.Body)
	}
	status := sys.Call(t, "observe", map[string]any{"what": "status"})
	for _, want := range []string{"https://evil.example", "TOCSIN_ALLOWED_ORIGINS"} {
		if !strings.Contains(status, want) {
			t.Errorf("observe status: %s, want %s in it", status, want)
		}
	}
	code, stdout, stderr := e2etest.Tocsin(t, sys.Bus.StateDir, "doctor")
	if code != 0 || !strings.Contains(stdout, "WARN ingest") || !strings.Contains(stdout, "https://evil.example (requests: 7") || !strings.Contains(stdout, "TOCSIN_ALLOWED_ORIGINS") {
		t.Errorf("doctor: exit %d\n%s%s\nwant a warning that names the origin, the count and the setting", code, stdout, stderr)
	}
	if n := strings.Count(sys.Bus.Log.String(), "refused pages of other sites"); n != 1 {
		t.Errorf("%d lines in the log, want 1", n)
	}
}
