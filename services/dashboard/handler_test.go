package dashboard

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// everyPath is one request for each thing that there is.
var everyPath = []struct{ method, path string }{
	{"GET", "/"}, {"GET", pathStream}, {"GET", pathSession}, {"POST", pathSignIn}, {"DELETE", pathSignIn}, {"GET", pathAlerts}, {"GET", pathHealth}, {"GET", pathStatus},
	{"GET", pathVitals}, {"GET", pathEvents}, {"GET", pathNoise}, {"POST", pathNoise}, {"GET", pathSilences}, {"POST", pathSilences},
	{"DELETE", pathSilences + "/x"}, {"POST", pathAcks}, {"DELETE", pathAcks + "/x"}, {"GET", pathNotices},
	{"GET", pathAlive}, {"GET", pathReady}, {"GET", pathMetrics}, {"GET", "/nothing"}, {"OPTIONS", pathStream},
}

// TestForeign: pages of other sites, and names of other machines, get nothing at all
// (contract, section 8).
func TestForeign(t *testing.T) {
	_, d := onBus(t)
	for _, header := range [][]string{
		{"Host", "evil.example"},
		{"Host", "evil.example:7480"},
		{"Host", "127.0.0.1.evil.example"},
		{"Origin", "https://evil.example"},
		{"Origin", "http://localhost:3000"}, // of this machine, but not ours
		{"Origin", "null"},
		{"Origin", ""},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"},
	} {
		for _, r := range everyPath {
			a := d.send(t, r.method, r.path, "", header...)
			if a.status != http.StatusForbidden || !strings.HasPrefix(a.body, `{"ok":false,"error":"`) || a.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s %q: %d %v %s", r.method, r.path, header, a.status, a.header, a.body)
			}
		}
	}
}

// TestOwn: the own page, programs, and people who follow a link get in.
func TestOwn(t *testing.T) {
	_, d := onBus(t)
	for _, header := range [][]string{
		nil,
		{"Origin", d.url},
		{"Sec-Fetch-Site", "same-origin"},
		{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
		{"Host", "localhost"},
	} {
		if a := d.get(t, "/", header...); a.status != http.StatusOK {
			t.Errorf("%q: %d %s", header, a.status, a.body)
		}
	}
}

// TestBehindProxy: where a proxy speaks TLS in front, the page's own origin is https. By
// the proxy's name nobody reads without the token, but users that the proxy names, where
// it is trusted.
func TestBehindProxy(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.AllowedHosts, cfg.Token = []string{"alerts.example"}, "secret"
	var here httpguard.Network
	if err := here.UnmarshalText([]byte("127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	cfg.Proxy = httpguard.Proxy{Networks: []httpguard.Network{here}, Header: "Remote-User"}
	d := start(t, cfg)
	d.awaitReady(t)
	if a := d.get(t, pathAlerts, "Host", "alerts.example"); a.status != http.StatusUnauthorized {
		t.Errorf("by the proxy's name, without a proof: %d %s, want 401", a.status, a.body)
	}
	if a := d.get(t, pathAlerts, "Host", "alerts.example", "Remote-User", "ann"); a.status != http.StatusOK {
		t.Errorf("a user of the proxy: %d %s, want 200", a.status, a.body)
	}
	if a := d.send(t, "POST", pathNoise, "{}", "Host", "alerts.example", "Remote-User", "ann"); a.status == http.StatusUnauthorized {
		t.Errorf("a user of the proxy changes something: %d %s, want no 401", a.status, a.body)
	}
	for _, tt := range []struct {
		host, origin string
		status       int
	}{
		{"alerts.example", "https://alerts.example", 200},
		{"alerts.example", "http://alerts.example", 200},
		{"alerts.example", "", 200},
		{"alerts.example", "https://other.example", 403},
		{"other.example", "https://other.example", 403},
	} {
		header := []string{"Host", tt.host, "Authorization", "Bearer secret"}
		if tt.origin != "" {
			header = append(header, "Origin", tt.origin)
		}
		if a := d.get(t, pathAlerts, header...); a.status != tt.status {
			t.Errorf("%+v: %d %s", tt, a.status, a.body)
		}
	}
}

// TestToken: writes need it where there is one, reads don't.
func TestToken(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.Token = " secret "
	d := start(t, cfg)
	d.awaitReady(t)
	d.awaitActions(t)
	for _, r := range everyPath {
		if r.path == pathStream || r.path == pathSignIn || r.method == http.MethodOptions {
			continue
		}
		write := r.method != http.MethodGet
		for header, may := range map[string]bool{"": false, "Bearer wrong": false, "Bearer": false, "secret": false, "Bearer secret": true} {
			a := d.send(t, r.method, r.path, "", "Authorization", header)
			if refused := a.status == http.StatusUnauthorized; refused != (write && !may) {
				t.Errorf("%s %s with %q: %d %s", r.method, r.path, header, a.status, a.body)
			} else if refused && a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%v", a.header)
			}
		}
	}
	var s struct {
		TokenRequired bool `json:"token_required"`
	}
	d.get(t, pathSession).json(t, &s)
	if !s.TokenRequired {
		t.Error("the page is not told of the token")
	}
}

// TestMethods: what a path does not do is refused, with what it does.
func TestMethods(t *testing.T) {
	_, d := onBus(t)
	for path, allow := range map[string]string{
		"/": "GET, HEAD", pathStream: "GET, HEAD", pathAlerts: "GET, HEAD", pathMetrics: "GET, HEAD",
		pathNoise: "GET, HEAD, POST", pathSilences: "GET, HEAD, POST", pathSilences + "/x": "DELETE", pathAcks: "POST", pathAcks + "/x": "DELETE",
	} {
		for _, method := range []string{http.MethodPut, http.MethodOptions, http.MethodTrace} {
			if a := d.send(t, method, path, ""); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != allow {
				t.Errorf("%s %s: %d %v", method, path, a.status, a.header)
			}
		}
	}
	for _, path := range []string{"/nothing", "/api", "/api/", pathSilences + "/", pathSilences + "/x/y", pathAlerts + "/x", "/assets/x.js", "/.gitignore", "/README.md", "//", "/../x"} {
		if a := d.get(t, path); a.status != http.StatusNotFound || !strings.Contains(a.body, pathStream) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// TestProtection: every answer has the policy, which allows no script and no style
// that stands in the page, and nobody to talk to but this address and the bus.
func TestProtection(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.Browser.URL = func() string { return "ws://127.0.0.1:7443" }
	d := start(t, cfg)
	d.awaitReady(t)
	for _, path := range []string{"/", pathAlerts, "/nothing", pathSession} {
		h := d.get(t, path).header
		policy := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self' ws://127.0.0.1:*;", "trusted-types 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: no %s in %s", path, part, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, h)
		}
	}
	if policy := d.get(t, "/", "Host", "evil.example").header.Get("Content-Security-Policy"); strings.Contains(policy, "ws://") {
		t.Error(policy)
	}
}

// TestAddress: a taken port is told, but for the usual one, in whose place there is
// another.
func TestAddress(t *testing.T) {
	b := newBus(t)
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	cfg := b.config()
	cfg.Logger, cfg.Addr = quiet(), taken.Addr().String()
	if err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "TOCSIN_DASHBOARD_ADDR") || !strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
	cfg.Addr = "0.0.0.0:0"
	if err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "TOCSIN_TOKEN") {
		t.Error(err)
	}
	cfg.Addr = ""
	usual, err := lc.Listen(t.Context(), "tcp", DefaultAddr)
	if err == nil { // else it is taken by something else
		defer func() { _ = usual.Close() }()
	}
	l, err := cfg.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if l.Addr().String() == DefaultAddr || !strings.HasPrefix(l.Addr().String(), "127.0.0.1:") {
		t.Error(l.Addr())
	}
}
