package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestPagesOfOtherSitesAreRefused: they neither end nor raise an alert, and who looks
// for the telemetry of such a page finds out why it is not there.
func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	w := start(t)
	for _, path := range []string{"/v1/events", "/ci-result", "/v1/logs", "/v1/reports", "/api/1/envelope/", "/v1/junit", "/webhooks/alertmanager"} {
		for _, origin := range []string{"https://evil.example", "null"} {
			a := send(t, "POST", w.bus.IngestURL+path, `{"kind":"circuit","app":"shop","circuit":{"name":"db","state":"open"}}`, "Content-Type", "text/plain", "Origin", origin)
			if a.Status != http.StatusForbidden || !strings.Contains(a.Body, "TOCSIN_ALLOWED_ORIGINS") {
				t.Errorf("%s from %s: %d %s, want 403 that names the setting", path, origin, a.Status, a.Body)
			}
		}
	}
	a := send(t, "POST", w.bus.IngestURL+"/v1/events", `{"kind":"circuit","app":"Tocsin","circuit":{"name":"ingest","state":"open"}}`, "Content-Type", "application/json")
	if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"index":0`) {
		t.Errorf("the app Tocsin: %d %s, want 400 with an index", a.Status, a.Body)
	}
	status := w.call(t, "observe", map[string]any{"what": "status"})
	for _, want := range []string{"https://evil.example", "TOCSIN_ALLOWED_ORIGINS"} {
		if !strings.Contains(status, want) {
			t.Errorf("observe status: %s, want %s in it", status, want)
		}
	}
	code, stdout, stderr := tocsin(t, w.bus.StateDir, "doctor")
	if code != 0 || !strings.Contains(stdout, "WARN intake") || !strings.Contains(stdout, "https://evil.example (requests: 7") || !strings.Contains(stdout, "TOCSIN_ALLOWED_ORIGINS") {
		t.Errorf("doctor: exit %d\n%s%s\nwant a warning that names the origin, the count and the setting", code, stdout, stderr)
	}
	if n := strings.Count(w.bus.Log.String(), "refused pages of other sites"); n != 1 {
		t.Errorf("%d lines in the log, want 1", n)
	}
}
