package ingest

import (
	"net/http"
	"strings"
	"testing"
)

func TestRoutes(t *testing.T) {
	rs := newRoutes([]route{
		{path: "/v1/events", method: http.MethodPost},
		{path: "/api/{project}/envelope/", method: http.MethodPost},
	})
	for _, c := range []struct{ path, found, project string }{
		{"/v1/events", "/v1/events", ""},
		{"/v1/events/", "", ""},
		{"/V1/events", "", ""},
		{"/api/1/envelope/", "/api/{project}/envelope/", "1"},
		{"/api/shop/envelope", "/api/{project}/envelope/", "shop"},
		{"/api/{project}/envelope/", "/api/{project}/envelope/", "{project}"},
		{"/api//envelope/", "", ""},
		{"/api/1/2/envelope/", "", ""},
		{"/api/1/store/", "", ""},
		{"/api/1", "", ""},
		{"/api/", "", ""},
		{"", "", ""},
	} {
		r := ask("POST", "/", nil)
		r.URL.Path = c.path
		got := ""
		if found := rs.find(r); found != nil {
			got = found.path
		}
		if got != c.found || r.PathValue("project") != c.project {
			t.Errorf("%q: %q, project %q", c.path, got, r.PathValue("project"))
		}
	}
	if rs.listed != "POST /v1/events, POST /api/{project}/envelope/" {
		t.Error(rs.listed)
	}
}

// TestPages says of each route which pages may have a part in it: those of other sites
// in none (contract, section 11), and who reads the answer.
func TestPages(t *testing.T) {
	const none, local, configured, below, foreign, null = "", "http://localhost:3000", "https://app.example", "https://shop.pattern.example", "https://evil.example", "null"
	const trusted = none + " " + local + " " + configured + " " + below
	for _, c := range []struct {
		path  string
		may   string // the origins that may send
		reads string // those that read the answer
	}{
		{"/v1/events", trusted, trusted},
		{"/v1/logs", trusted, trusted},
		{"/v1/reports", trusted, trusted},
		{"/api/1/envelope/", trusted, trusted},
		{"/lines", trusted, trusted},
		{"/ci-result", trusted, none},
		{"/v1/junit", trusted, none},
		{"/webhooks/alertmanager", trusted, none},
		{"/tocsin.js", trusted, none},
	} {
		for _, origin := range []string{none, local, configured, below, foreign, null} {
			h := foreignRoute(&fakeSink{})
			header := []string{"Content-Type", "text/plain"}
			if origin != none {
				header = append(header, "Origin", origin)
			}
			method := "POST"
			if c.path == "/tocsin.js" {
				method = "GET"
			}
			w := answerOf(h, ask(method, c.path, strings.NewReader("info"), header...))
			may, reads := contains(c.may, origin), contains(c.reads, origin)
			if refused := w.Code == http.StatusForbidden; refused == may {
				t.Errorf("%s from %q: %d %s, want refused = %t", c.path, origin, w.Code, w.Body, !may)
			}
			if text := w.Body.String(); !may && (!strings.Contains(text, strings.TrimPrefix(origin, "https://")) || !strings.Contains(text, "TOCSIN_ALLOWED_ORIGINS")) {
				t.Errorf("%s from %q: %s, want the origin and the setting", c.path, origin, text)
			}
			if got := w.Header().Get("Access-Control-Allow-Origin") == origin; origin != none && got != reads {
				t.Errorf("%s from %q: reads the answer: %v, want %v", c.path, origin, got, reads)
			}
			w = answerOf(h, ask("OPTIONS", c.path, nil, "Origin", origin, "Access-Control-Request-Method", "POST"))
			if asked := w.Code == http.StatusNoContent; origin != none && asked != reads {
				t.Errorf("%s, preflight from %q: %d", c.path, origin, w.Code)
			}
		}
	}
}

func contains(origins, origin string) bool {
	for one := range strings.SplitSeq(origins, " ") {
		if one == origin {
			return true
		}
	}
	return false
}
