package ingest

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestEveryRoute compares the answer of every path to every method, from every kind of
// sender, with a golden file: what a request gets before its body is read.
func TestEveryRoute(t *testing.T) {
	paths := []string{
		"/v1/events", "/ci-result", "/v1/junit", "/webhooks/github", "/webhooks/gitlab", "/webhooks/alertmanager", "/v1/reports",
		"/healthz", "/readyz", "/metrics", "/tocsin.js", "/api/7/envelope/", "/api/7/envelope", "/api/7/store/", "/v1/logs", "/v1/traces", "/v1/metrics",
		"/", "//", "/../healthz", "/v1/./events", "/v1//events", "/v1%2Fevents", "/%761/events", "/v1/events/", "/api//envelope/", "/api/a%2Fb/store/", "/api/7", "*",
	}
	senders := []struct {
		name   string
		header []string
		change func(*Config)
	}{
		{name: "this machine"},
		{name: "another host", header: []string{"Host", "evil.example"}},
		{name: "a foreign page", header: []string{"Origin", "https://evil.example"}},
		{name: "a local page", header: []string{"Origin", "http://localhost:3000", "Access-Control-Request-Method", "POST"}},
		{name: "a configured page", header: []string{"Origin", "https://app.example"}},
		{name: "an embedding page", header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}},
		{name: "no token", change: withToken},
		{name: "no token, beyond loopback", change: func(c *Config) { withToken(c); c.exposed = true }},
		{name: "the token", header: []string{"Authorization", "Bearer s3cret"}, change: func(c *Config) { withToken(c); c.exposed = true }},
	}
	var answers []string              // in the order in which they first came
	requests := map[string][]string{} // by answer
	note := func(request, answer string) {
		if requests[answer] == nil {
			answers = append(answers, answer)
		}
		requests[answer] = append(requests[answer], request)
	}
	for _, from := range senders {
		var changes []func(*Config)
		if from.change != nil {
			changes = append(changes, from.change)
		}
		h := testHandler(&fakeSink{}, changes...)
		for _, path := range paths {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "OPTIONS"} {
				r := ask(method, "/", nil, from.header...)
				if path == "*" {
					r.RequestURI, r.URL.Path = "*", "*"
				} else {
					r = ask(method, path, nil, from.header...)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if path == "/tocsin.js" && (method == "GET" || method == "HEAD") && w.Code != 403 {
					continue // the answer depends on whether the script was built
				}
				if path == "/metrics" && w.Code == 200 {
					w.Body = nil
				}
				note(from.name+": "+method+" "+path, render(w.Result()))
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, ask("GET", "/metrics", nil, "Authorization", "Bearer s3cret"))
		var counted []string
		for line := range strings.Lines(w.Body.String()) {
			if strings.HasPrefix(line, "tocsin_ingest_requests_total") {
				// Without the built script, the answer is 503 in place of 200.
				line = strings.Replace(line, `code="503",path="/tocsin.js"`, `code="200",path="/tocsin.js"`, 1)
				counted = append(counted, line)
			}
		}
		slices.Sort(counted)
		note(from.name+": requests counted", strings.Join(counted, ""))
	}
	var golden bytes.Buffer
	for _, answer := range answers {
		fmt.Fprintf(&golden, "%s\n\n%s\n", strings.Join(requests[answer], "\n"), answer)
	}
	compare(t, "testdata/routes.golden", golden.Bytes())
}
