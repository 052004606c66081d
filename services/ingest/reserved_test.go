package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestReservedAppIsRefused checks that the native endpoint refuses the app, also with
// hidden characters in it, names the index of the event, and stores nothing of the batch.
func TestReservedAppIsRefused(t *testing.T) {
	event := func(app string) string {
		return fmt.Sprintf(`{"kind":"circuit","app":%q,"circuit":{"name":"ingest","state":"open"}}`, app)
	}
	for _, c := range []struct {
		body  string
		index string
	}{
		{event("tocsin"), `"index":0`},
		{event("Tocsin"), `"index":0`},
		{event("TOCSIN "), `"index":0`},
		{event("toc\u200bsin"), `"index":0`},
		{event("toc\u200dsin"), `"index":0`},
		{event("tocsin\u2800"), `"index":0`},
		{"[" + event("web") + "," + event("tOcSiN") + "]", `"index":1`},
		{event("web") + "\n" + event("web") + "\n" + event("tocsin"), `"index":2`},
	} {
		sink := &fakeSink{}
		media := typeJSON
		if strings.Contains(c.body, "\n") {
			media = typeNDJSON
		}
		w := answerOf(testHandler(sink), ask("POST", pathEvents, strings.NewReader(c.body), "Content-Type", media))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), c.index) || !strings.Contains(w.Body.String(), "reserved") || len(sink.msgs) != 0 {
			t.Errorf("%s: %d %s, %d messages; want 400 with %s, and none", c.body, w.Code, w.Body, len(sink.msgs), c.index)
		}
	}
	sink := &fakeSink{}
	for _, app := range []string{"tocsin_", "tocsin-shop", "my tocsin"} {
		if w := answerOf(testHandler(sink), ask("POST", pathEvents, strings.NewReader(event(app)), "Content-Type", typeJSON)); w.Code != http.StatusOK {
			t.Errorf("app %q: %d %s, want 200", app, w.Code, w.Body)
		}
	}
}

// TestReservedAppInForeignFormats checks that foreign events of the reserved app are stored
// as app tocsin_, because not all of their senders react to a refusal.
func TestReservedAppInForeignFormats(t *testing.T) {
	for name, c := range map[string]struct{ path, media, body string }{
		"reports": {pathReports + "?app=Tocsin", "application/reports+json",
			`[{"type":"csp-violation","age":1,"url":"http://localhost:3000/","body":{"documentURL":"http://localhost:3000/","blockedURL":"https://evil.example/x.js","effectiveDirective":"script-src","disposition":"enforce"}}]`},
		"OTLP": {pathOTLPLogs, typeJSON,
			`{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"tocsin"}}]},"scopeLogs":[{"logRecords":[{"severityText":"ERROR","severityNumber":17,"body":{"stringValue":"forged"}}]}]}]}`},
		"Sentry": {"/api/1/store/", typeJSON, `{"event_id":"0123456789abcdef0123456789abcdef","level":"error","message":"forged","tags":{"app":"TOCSIN"}}`},
		"Alertmanager": {"/webhooks/alertmanager", typeJSON,
			`{"version":"4","groupKey":"g","status":"firing","receiver":"r","alerts":[{"status":"firing","labels":{"alertname":"Forged","app":"tocsin"},"annotations":{},"startsAt":"2026-01-28T14:30:00Z","endsAt":"0001-01-01T00:00:00Z","fingerprint":"0123456789abcdef"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			sink := &fakeSink{}
			w := answerOf(testHandler(sink), ask("POST", c.path, strings.NewReader(c.body), "Content-Type", c.media))
			if w.Code != http.StatusOK || len(sink.msgs) != 1 {
				t.Fatalf("%d %s, %d messages; want 200 and one", w.Code, w.Body, len(sink.msgs))
			}
			if got := string(sink.msgs[0].Data); !strings.Contains(got, `"app":"tocsin_"`) {
				t.Errorf("stored %s, want the app tocsin_", got)
			}
			if got := sink.msgs[0].Subject; strings.Contains(got, ".tocsin.") {
				t.Errorf("stored on %s, want another app's subject", got)
			}
		})
	}
}
