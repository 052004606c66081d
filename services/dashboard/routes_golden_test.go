package dashboard

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write the golden files")

// TestEveryRoute compares the answer of every path to every method, from every kind of
// sender, with a golden file. There is no bus.
func TestEveryRoute(t *testing.T) {
	paths := []string{
		"/", pathStream, pathSession, pathSignIn, pathAlerts, pathHealth, pathStatus, pathVitals, pathEvents, pathNoise, pathSilences, pathSilences + "/x",
		pathSilences + "/", pathSilences + "/x/y", pathAcks, pathAcks + "/x", pathNotices, pathAlive, pathReady, pathMetrics,
		"/nothing", "//", "/../healthz", "/api/./alerts", "/api%2Falerts", "/%61pi/alerts", pathSilences + "/a%2Fb", pathSilences + "/a%20b", "*",
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
		{name: "no token, beyond loopback", change: func(c *Config) { c.Token, c.beyond = "s3cret", true }},
		{name: "a wrong token, beyond loopback", header: []string{"Authorization", "Bearer x"}, change: func(c *Config) { c.Token, c.beyond = "s3cret", true }},
		{name: "the token", header: []string{"Authorization", "Bearer s3cret"}, change: func(c *Config) { c.Token, c.beyond = "s3cret", true }},
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
		cfg, err := Config{Logger: quiet(), NoActions: "there is no desk", Registry: prometheus.NewRegistry(), Version: "v1"}.complete()
		if err != nil {
			t.Fatal(err)
		}
		if from.change != nil {
			from.change(&cfg)
		}
		h, err := newHandler(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"} {
				target := path
				if path == "*" {
					target = "/"
				}
				r := httptest.NewRequest(method, "http://127.0.0.1:7480"+target, http.NoBody)
				if path == "*" {
					r.RequestURI, r.URL.Path = "*", "*"
				}
				for i := 0; i < len(from.header); i += 2 {
					if from.header[i] == "Host" {
						r.Host = from.header[i+1]
						continue
					}
					r.Header.Add(from.header[i], from.header[i+1])
				}
				if path == pathStream && method == "GET" && from.name != "another host" && from.name != "a foreign page" {
					continue // a stream has no end
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if path == "/" && w.Code == 200 {
					continue // the answer depends on whether the page was built
				}
				served := path == pathMetrics && w.Code == 200
				note(from.name+": "+method+" "+path, render(w.Result(), served))
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7480/metrics", http.NoBody))
		if from.change != nil {
			continue
		}
		var counted []string
		for line := range strings.Lines(w.Body.String()) {
			if strings.HasPrefix(line, "tocsin_dashboard_requests_total") {
				counted = append(counted, line)
			}
		}
		slices.Sort(counted)
		note(from.name+": requests counted", strings.Join(counted, ""))
	}
	var golden strings.Builder
	for _, answer := range answers {
		fmt.Fprintf(&golden, "%s\n\n%s\n", strings.Join(requests[answer], "\n"), answer)
	}
	const file = "testdata/routes.golden"
	if *update {
		if err := os.WriteFile(file, []byte(golden.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), golden.String()); diff != "" {
		t.Errorf("the answers differ from %s (-want +got):\n%s", file, diff)
	}
}

// render writes an answer down; of a file that is served, only what does not depend on
// its contents.
func render(w *http.Response, served bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", w.StatusCode, http.StatusText(w.StatusCode))
	names := make([]string, 0, len(w.Header))
	for name := range w.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !served || name != "Etag" && name != "Content-Length" {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(w.Header[name], " | "))
		}
	}
	if !served {
		body, _ := io.ReadAll(w.Body)
		fmt.Fprintf(&b, "%s\n", body)
	}
	return b.String()
}
