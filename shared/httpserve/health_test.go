package httpserve

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve/httpservetest"
)

// TestHealthReference checks that the reference page lists every route.
func TestHealthReference(t *testing.T) {
	routes := Health{Logger: slog.New(slog.DiscardHandler)}.front(false).Routes()
	httpservetest.CheckReference(t, "../../docs/reference/http.md", "Detector and kubewatch", routes)
}

// TestHealth holds the answers of a health listener, which are plain text where they
// are refusals.
func TestHealth(t *testing.T) {
	const badHost = "host \"evil.example\" is not allowed: only loopback names, such as localhost and 127.0.0.1, and those in TOCSIN_ALLOWED_HOSTS are\n"
	for _, c := range []struct {
		name, method, path string
		header             []string
		exposed            bool
		err                error
		status             int
		media, body        string
	}{
		{name: "alive", method: "GET", path: "/healthz", status: 200, media: "application/json", body: `{"ok":true}` + "\n"},
		{name: "alive beyond loopback", method: "GET", path: "/healthz", exposed: true, status: 200, media: "application/json", body: `{"ok":true}` + "\n"},
		{name: "ready", method: "GET", path: "/readyz", status: 200, media: "application/json", body: `{"ok":true}` + "\n"},
		{name: "not ready", method: "GET", path: "/readyz", err: errors.New("no bus"), status: 503, media: "application/json", body: `{"ok":false,"error":"no bus"}` + "\n"},
		{name: "not ready, beyond loopback", method: "GET", path: "/readyz", exposed: true, err: errors.New("no bus"), status: 503, media: "application/json", body: `{"ok":false}` + "\n"},
		{name: "not ready, with the token", method: "GET", path: "/readyz", header: []string{"Authorization", "Bearer secret"}, exposed: true, err: errors.New("no bus"), status: 503, media: "application/json", body: `{"ok":false,"error":"no bus"}` + "\n"},
		{name: "metrics", method: "GET", path: "/metrics", status: 200, media: "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"},
		{name: "metrics beyond loopback", method: "GET", path: "/metrics", exposed: true, status: 401, media: "text/plain; charset=utf-8", body: httpguard.ErrNoToken.Error() + "\n"},
		{name: "another host", method: "GET", path: "/readyz", header: []string{"Host", "evil.example"}, status: 403, media: "text/plain; charset=utf-8", body: badHost},
		{name: "a page", method: "GET", path: "/healthz", header: []string{"Origin", "https://evil.example"}, status: 403, media: "text/plain; charset=utf-8", body: "origin \"https://evil.example\" is not allowed: only pages of this address may send requests\n"},
		{name: "an unknown path", method: "GET", path: "/x", status: 404, media: "text/plain; charset=utf-8", body: "404 page not found\n"},
		{name: "another method", method: "POST", path: "/healthz", status: 405, media: "text/plain; charset=utf-8", body: "Method Not Allowed\n"},
	} {
		h := Health{Addr: "127.0.0.1:0", Token: " secret ", Ready: func() error { return c.err }, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)}
		r := httptest.NewRequest(c.method, "http://127.0.0.1"+c.path, http.NoBody)
		for i := 0; i < len(c.header); i += 2 {
			if c.header[i] == "Host" {
				r.Host = c.header[i+1]
			} else {
				r.Header.Set(c.header[i], c.header[i+1])
			}
		}
		w := httptest.NewRecorder()
		h.front(c.exposed).ServeHTTP(w, r)
		got := fmt.Sprintf("%d %s %s", w.Code, w.Header().Get("Content-Type"), w.Body)
		if want := fmt.Sprintf("%d %s %s", c.status, c.media, c.body); got != want {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, got, want)
		}
		if w.Code == http.StatusMethodNotAllowed && w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow = %q, want %q", c.name, w.Header().Get("Allow"), "GET, HEAD")
		}
	}
}

func TestListener(t *testing.T) {
	l, err := Listener{Purpose: "the test", Setting: "TOCSIN_TEST_ADDR", Addr: "127.0.0.1:0", MaxConns: 1}.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, c := range []struct{ addr, setting, want string }{
		{l.Addr().String(), "TOCSIN_TEST_ADDR", "address already in use: free the port or set TOCSIN_TEST_ADDR"},
		{l.Addr().String(), "--http", "address already in use: free the port or name another with --http"},
		{"0.0.0.0:0", "--http", "--http 0.0.0.0:0 can be reached from other machines: set TOCSIN_TOKEN, or listen on 127.0.0.1"},
		{"x", "--http", `--http "x" must be host:port`},
	} {
		_, err := Listener{Purpose: "the test", Setting: c.setting, Addr: c.addr}.Listen(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("listen on %s: error %v, want %q", c.addr, err, c.want)
		}
	}
}
