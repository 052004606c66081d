package ingest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// TestPaths checks that the paths of Sentry's SDKs name a project, and that the slash at
// their end may be missing.
func TestPaths(t *testing.T) {
	for _, c := range []struct{ path, route, project string }{
		{"/v1/events", "/v1/events", ""},
		{"/v1/events/", "other", ""},
		{"/V1/events", "other", ""},
		{"/api/1/envelope/", "/api/{project}/envelope/", "1"},
		{"/api/shop/envelope", "/api/{project}/envelope/", "shop"},
		{"/api/{project}/envelope/", "/api/{project}/envelope/", "{project}"},
		{"/api//envelope/", "other", ""},
		{"/api/1/2/envelope/", "other", ""},
		{"/api/1/query/", "other", ""},
		{"/api/1", "other", ""},
		{"/api/", "other", ""},
		{"", "other", ""},
	} {
		h := testHandler(&fakeSink{})
		project := ""
		routes := h.routes()
		for i := range routes {
			if routes[i].Answer != nil {
				routes[i].Answer = func(r *http.Request) (httpserve.Answer, error) {
					project = r.PathValue("project")
					return httpserve.OK(), nil
				}
			}
		}
		h.Front = h.front(routes, "")
		r := ask("POST", "/", nil)
		r.URL.Path = c.path
		answerOf(h, r)
		if project != c.project {
			t.Errorf("%q: project %q, want %q", c.path, project, c.project)
		}
		status := "200"
		if c.route == "other" {
			status = "404"
		}
		if got := testutil.ToFloat64(h.metrics.requests.WithLabelValues(c.route, status)); got != 1 {
			t.Errorf("%q: %v requests of %s with %s, want 1", c.path, got, c.route, status)
		}
	}
}

// TestPages checks for each route which pages may use it (none of other sites), and which
// may read the answer.
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
			h := withLines(&fakeSink{})
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
				t.Errorf("%s, preflight from %q: got %d, want 204: %t", c.path, origin, w.Code, reads)
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
