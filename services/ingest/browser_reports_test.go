package ingest

import (
	"net/http"
	"strings"
	"testing"
)

func TestBrowserReports(t *testing.T) {
	const (
		local   = "http://localhost:3000"
		reports = `[{"type":"csp-violation","age":500,"url":"http://localhost:3000/cart","body":{"effectiveDirective":"img-src","blockedURL":"https://b/x.png"}},{"type":"deprecation","body":{"message":"hunter2"}},{}]`
		old     = `{"csp-report":{"document-uri":"http://localhost:3000/cart","effective-directive":"img-src","blocked-uri":"https://b/x.png"}}`
	)
	for _, c := range []struct {
		name, path, body string
		header           []string
		change           func(*Config)
		status           int
		answer           string // a part
		app              string // empty where nothing is stored
	}{
		{name: "reports", path: pathReports, body: reports, header: []string{"Content-Type", "application/reports+json"}, status: 200, answer: `{"ok":true,"accepted":2}`, app: "default"},
		{name: "of an app", path: pathReports + "?app=web", body: reports, header: []string{"Content-Type", "application/reports+json", "Origin", local}, status: 200, answer: `"accepted":2`, app: "web"},
		{name: "of report-uri", path: pathReports, body: old, header: []string{"Content-Type", "application/csp-report"}, status: 200, answer: `"accepted":1`, app: "default"},
		{name: "as text", path: pathReports, body: reports, header: []string{"Content-Type", "text/plain"}, status: 200, answer: `"accepted":2`, app: "default"},
		{name: "none", path: pathReports, body: "[]", header: []string{"Content-Type", "application/json"}, status: 200, answer: `"accepted":0`},
		{name: "garbage", path: pathReports, body: "garbage", header: []string{"Content-Type", "application/json"}, status: 400, answer: "malformed JSON"},
		{name: "XML", path: pathReports, body: "<a/>", header: []string{"Content-Type", "text/xml"}, status: 415, answer: "application/reports+json"},
		{name: "a foreign page", path: pathReports, body: reports, header: []string{"Content-Type", "text/plain", "Origin", "https://evil.example"}, status: 403, answer: "evil.example"},
		{name: "without the token", path: pathReports, body: reports, header: []string{"Content-Type", "application/reports+json"}, change: withToken, status: 401, answer: "TOCSIN_TOKEN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &fakeSink{}
			h := testHandler(s, func(cfg *Config) {
				if c.change != nil {
					c.change(cfg)
				}
			})
			w := answerOf(h, ask("POST", c.path, strings.NewReader(c.body), c.header...))
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.answer) {
				t.Errorf("got %d %s, want %d with %q", w.Code, w.Body, c.status, c.answer)
			}
			events := storedEvents(t, s)
			if c.app == "" != (len(events) == 0) || c.app != "" && (events[0].App != c.app || events[0].Time.IsZero()) {
				t.Errorf("stored %+v, want events with a time of app %q, or none without an app", events, c.app)
			}
			for _, m := range s.msgs {
				if strings.Contains(string(m.Data), "hunter2") {
					t.Errorf("stored %s, want the password masked", m.Data)
				}
			}
		})
	}
	w := answerOf(testHandler(&fakeSink{}), ask("OPTIONS", pathReports, nil, "Origin", local,
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"))
	if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Origin") != local {
		t.Errorf("preflight: got %d %v, want 204 and Access-Control-Allow-Origin %s", w.Code, w.Header(), local)
	}
}
