package ingest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/httpserve/httpservetest"
)

// TestEveryRoute compares the answer of every path to every method, from every kind of
// sender, with a golden file. The requests have no body.
func TestEveryRoute(t *testing.T) {
	sweep := httpservetest.Sweep{URL: testURL, Methods: []string{"GET", "HEAD", "POST", "PUT", "OPTIONS"}, Render: renderRoute, Paths: []string{
		"/v1/events", "/ci-result", "/v1/junit", "/webhooks/github", "/webhooks/gitlab", "/webhooks/alertmanager", "/v1/reports",
		"/healthz", "/readyz", "/metrics", "/tocsin.js", "/api/7/envelope/", "/api/7/envelope", "/api/7/store/", "/v1/logs", "/v1/traces", "/v1/metrics",
		"/", "//", "/../healthz", "/v1/./events", "/v1//events", "/v1%2Fevents", "/%761/events", "/v1/events/", "/api//envelope/", "/api/a%2Fb/store/", "/api/7", "*",
	}}
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
	for _, from := range senders {
		var changes []func(*Config)
		if from.change != nil {
			changes = append(changes, from.change)
		}
		h := testHandler(&fakeSink{}, changes...)
		sweep.Send(h, from.name, from.header...)
		counted := httpservetest.Counters(h, ask("GET", "/metrics", nil, "Authorization", "Bearer s3cret"), "tocsin_ingest_requests_total")
		for i, line := range counted { // without the built script, the answer is 503 in place of 200
			counted[i] = strings.Replace(line, `code="503",path="/tocsin.js"`, `code="200",path="/tocsin.js"`, 1)
		}
		slices.Sort(counted)
		sweep.Add(from.name+": requests counted", strings.Join(counted, ""))
	}
	compare(t, "testdata/routes.golden", []byte(sweep.String()))
}

// renderRoute renders an answer. It leaves out those of /tocsin.js, which depend on
// whether the script was built, and the contents of /metrics.
func renderRoute(method, path string, w *http.Response) string {
	switch {
	case path == pathScript && (method == "GET" || method == "HEAD") && w.StatusCode != http.StatusForbidden:
		return ""
	case path == pathMetrics && w.StatusCode == http.StatusOK:
		w.Body = http.NoBody
	}
	return httpservetest.Render(w)
}

// TestReference checks that the reference page lists every route.
func TestReference(t *testing.T) {
	h := testHandler(&fakeSink{})
	const page = "../../docs/reference/http.md"
	httpservetest.CheckReference(t, page, "Ingest", h.Routes())
	httpservetest.CheckReference(t, page, "OpenTelemetry", h.front(h.otlpRoutes(), "").Routes())
}
