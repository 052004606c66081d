package dashboard

import (
	"flag"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/shared/httpserve/httpservetest"
)

var update = flag.Bool("update", false, "write the golden files")

// TestEveryRoute compares the answer of every path to every method, from every kind of
// sender, with a golden file. There is no bus.
func TestEveryRoute(t *testing.T) {
	const url = "http://127.0.0.1:7480"
	sweep := httpservetest.Sweep{URL: url, Methods: []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"}, Render: renderRoute, Paths: []string{
		"/", pathStream, pathSession, pathSignIn, pathAlerts, pathHealth, pathStatus, pathVitals, pathEvents, pathNoise, pathSilences, pathSilences + "/x",
		pathSilences + "/", pathSilences + "/x/y", pathAcks, pathAcks + "/x", pathNotices,
		pathInvestigation, pathInvestigation + "/", pathInvestigation + "/sessions", pathInvestigation + "/alerts", pathInvestigation + "/../session", pathAlive, pathReady, pathMetrics,
		"/nothing", "//", "/../healthz", "/api/./alerts", "/api%2Falerts", "/%61pi/alerts", pathSilences + "/a%2Fb", pathSilences + "/a%20b", "*",
	}}
	sweep.Skip = func(sender, method, path string) bool { // a stream that is allowed has no end
		return path == pathStream && method == "GET" && sender != "another host" && sender != "a foreign page"
	}
	senders := []struct {
		name   string
		header []string
		change func(*Config)
	}{
		{name: "this machine"},
		{name: "another host", header: []string{"Host", "evil.example"}},
		{name: "a foreign page", header: []string{"Origin", "https://evil.example"}},
		{name: "the page", header: []string{"Origin", "http://127.0.0.1:7480"}},
		{name: "a local page", header: []string{"Origin", "http://localhost:3000"}},
		{name: "an embedding page", header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}},
		{name: "no token", change: func(c *Config) { c.Token = "s3cret" }},
		{name: "no token, beyond loopback", change: func(c *Config) { c.Token, c.exposed = "s3cret", true }},
		{name: "a wrong token, beyond loopback", header: []string{"Authorization", "Bearer x"}, change: func(c *Config) { c.Token, c.exposed = "s3cret", true }},
		{name: "the token", header: []string{"Authorization", "Bearer s3cret"}, change: func(c *Config) { c.Token, c.exposed = "s3cret", true }},
	}
	for _, from := range senders {
		h := newTestHandler(t, from.change)
		sweep.Send(h, from.name, from.header...)
		if from.change != nil {
			continue
		}
		counted := httpservetest.Counters(h, httpservetest.Request("GET", url, pathMetrics, http.NoBody), "tocsin_dashboard_requests_total")
		sweep.Add(from.name+": requests counted", strings.Join(counted, ""))
	}
	const file = "testdata/routes.golden"
	if *update {
		if err := os.WriteFile(file, []byte(sweep.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), sweep.String()); diff != "" {
		t.Errorf("the answers differ from %s (-want +got):\n%s", file, diff)
	}
}

// renderRoute renders an answer. It leaves out the page, which depends on whether it was
// built, and the contents of /metrics.
func renderRoute(_, path string, w *http.Response) string {
	switch {
	case path == "/" && w.StatusCode == http.StatusOK:
		return ""
	case path == pathMetrics && w.StatusCode == http.StatusOK:
		return httpservetest.RenderHead(w, "Etag", "Content-Length")
	default:
		return httpservetest.Render(w)
	}
}

// newTestHandler returns a handler without a bus. change, which may be nil, changes its
// configuration.
func newTestHandler(t *testing.T, change func(*Config)) *handler {
	t.Helper()
	cfg, err := Config{Logger: discard(), NoActions: "there is no desk", Registry: prometheus.NewRegistry(), Version: "v1"}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&cfg)
	}
	h, err := newHandler(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestReference checks that the reference page lists every route.
func TestReference(t *testing.T) {
	httpservetest.CheckReference(t, "../../docs/reference/http.md", "Dashboard", newTestHandler(t, nil).Routes())
}
