package e2etest

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// Get gets a URL. If nothing answers, the Status is 0 and the Body is the error: a
// caller that polls a starting server goes on.
func Get(t *testing.T, url string) harness.Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	a, err := harness.Do(req)
	if err != nil {
		return harness.Answer{Body: err.Error()}
	}
	return a
}

// Send sends a request with a body of JSON, or none; header has names and values in turn.
func Send(t *testing.T, method, url, body string, header ...string) harness.Answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	a, err := harness.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// PortOf returns the port of a URL.
func PortOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// FreePort returns a port that was free a moment ago, for a listener that keeps its
// address over a restart.
func FreePort(t *testing.T) int {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}
