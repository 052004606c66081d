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

// TestPages says of each route which pages may have a part in it.
func TestPages(t *testing.T) {
	const none, local, configured, foreign, null = "", "http://localhost:3000", "https://app.example", "https://evil.example", "null"
	for _, c := range []struct {
		path string
		may  string // the origins that may, and read the answer
		send string // those that may, and don't
	}{
		{"/v1/events", none + " " + local + " " + configured, foreign + " " + null},
		{"/lines", none + " " + local + " " + configured, ""},
		{"/ci-result", none, ""},
	} {
		for _, origin := range []string{none, local, configured, foreign, null} {
			h := foreignRoute(&fakeSink{})
			header := []string{"Content-Type", "text/plain"}
			if origin != none {
				header = append(header, "Origin", origin)
			}
			w := answerOf(h, ask("POST", c.path, strings.NewReader("info"), header...))
			may, send := contains(c.may, origin), contains(c.send, origin)
			if refused := w.Code == http.StatusForbidden; refused == (may || send) {
				t.Errorf("%s from %q: %d %s", c.path, origin, w.Code, w.Body)
			}
			if reads := w.Header().Get("Access-Control-Allow-Origin") == origin; origin != none && reads != may {
				t.Errorf("%s from %q: reads the answer: %v", c.path, origin, reads)
			}
			w = answerOf(h, ask("OPTIONS", c.path, nil, "Origin", origin, "Access-Control-Request-Method", "POST"))
			if asked := w.Code == http.StatusNoContent; origin != none && asked != may {
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
