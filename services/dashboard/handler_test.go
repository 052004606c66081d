package dashboard

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// everyPath has one request for each route, an unknown path and an unknown method.
var everyPath = []struct{ method, path string }{
	{"GET", "/"}, {"GET", pathStream}, {"GET", pathSession}, {"POST", pathSignIn}, {"DELETE", pathSignIn}, {"GET", pathAlerts}, {"GET", pathHealth}, {"GET", pathStatus},
	{"GET", pathVitals}, {"GET", pathEvents}, {"GET", pathNoise}, {"POST", pathNoise}, {"GET", pathSilences}, {"POST", pathSilences},
	{"DELETE", pathSilences + "/x"}, {"POST", pathAcks}, {"DELETE", pathAcks + "/x"}, {"GET", pathNotices},
	{"GET", pathInvestigation + "/sessions"}, {"POST", pathInvestigation + "/alerts"}, {"GET", pathAlive}, {"GET", pathReady}, {"GET", pathMetrics}, {"GET", "/nothing"}, {"OPTIONS", pathStream},
}

// TestForeignRequests: requests of other sites' pages, and with other hosts' names, are refused.
func TestForeignRequests(t *testing.T) {
	_, d := onBus(t)
	for _, header := range [][]string{
		{"Host", "evil.example"},
		{"Host", "evil.example:7480"},
		{"Host", "127.0.0.1.evil.example"},
		{"Origin", "https://evil.example"},
		{"Origin", "http://localhost:3000"}, // on this machine, but another port
		{"Origin", "null"},
		{"Origin", ""},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"},
	} {
		for _, r := range everyPath {
			a := d.send(t, r.method, r.path, "", header...)
			request := fmt.Sprintf("%s %s with %q", r.method, r.path, header)
			a.check(t, request, http.StatusForbidden, `"error":"`)
			a.checkHeader(t, request, "Access-Control-Allow-Origin", "")
		}
	}
}

// TestOwnRequests: requests of the page itself, of programs, and by links of other sites are
// allowed.
func TestOwnRequests(t *testing.T) {
	_, d := onBus(t)
	for _, header := range [][]string{
		nil,
		{"Origin", d.url},
		{"Sec-Fetch-Site", "same-origin"},
		{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
		{"Host", "localhost"},
	} {
		d.get(t, "/", header...).check(t, fmt.Sprintf("GET / with %q", header), http.StatusOK, "")
	}
}

// TestBehindProxy: behind a proxy with TLS, the page's own origin is https. Requests by the
// proxy's name need the token, or a user that a trusted proxy names.
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
	d.get(t, pathAlerts, "Host", "alerts.example").check(t, "a request by the proxy's name, without a proof", http.StatusUnauthorized, "")
	d.get(t, pathAlerts, "Host", "alerts.example", "Remote-User", "ann").check(t, "a request of a user of the proxy", http.StatusOK, "")
	if a := d.send(t, "POST", pathNoise, "{}", "Host", "alerts.example", "Remote-User", "ann"); a.status == http.StatusUnauthorized {
		t.Errorf("a change by a user of the proxy: %d %s, want no 401", a.status, a.body)
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
		d.get(t, pathAlerts, header...).check(t, fmt.Sprintf("GET %s with %q", pathAlerts, header), tt.status, "")
	}
}

// TestToken: writes need the token, reads on loopback do not.
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
		for header, allowed := range map[string]bool{"": false, "Bearer wrong": false, "Bearer": false, "secret": false, "Bearer secret": true} {
			a := d.send(t, r.method, r.path, "", "Authorization", header)
			request := fmt.Sprintf("%s %s with Authorization %q", r.method, r.path, header)
			refused := a.status == http.StatusUnauthorized
			if want := write && !allowed; refused != want {
				t.Errorf("%s: %d %s, want refused = %t", request, a.status, a.body, want)
			}
			if refused {
				a.checkHeader(t, request, "WWW-Authenticate", "Bearer")
			}
		}
	}
	var s struct {
		TokenRequired bool `json:"token_required"`
	}
	d.get(t, pathSession).json(t, &s)
	if !s.TokenRequired {
		t.Error("token_required = false, want true")
	}
}

// TestMethods: unknown methods are refused with the allowed ones, unknown paths with the known.
func TestMethods(t *testing.T) {
	_, d := onBus(t)
	for path, allow := range map[string]string{
		"/": "GET, HEAD", pathStream: "GET, HEAD", pathAlerts: "GET, HEAD", pathMetrics: "GET, HEAD",
		pathNoise: "GET, HEAD, POST", pathSilences: "GET, HEAD, POST", pathSilences + "/x": "DELETE", pathAcks: "POST", pathAcks + "/x": "DELETE",
	} {
		for _, method := range []string{http.MethodPut, http.MethodOptions, http.MethodTrace} {
			a := d.send(t, method, path, "")
			a.check(t, method+" "+path, http.StatusMethodNotAllowed, "")
			a.checkHeader(t, method+" "+path, "Allow", allow)
		}
	}
	for _, path := range []string{"/nothing", "/api", "/api/", pathSilences + "/", pathSilences + "/x/y", pathAlerts + "/x", "/assets/x.js", "/.gitignore", "/README.md", "//", "/../x"} {
		d.get(t, path).check(t, "GET "+path, http.StatusNotFound, pathStream)
	}
}

// TestProtection: every answer has the content security policy, which allows no inline script
// or style, and connections only to this address and the bus.
func TestProtection(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.Browser.URL = func() string { return "ws://127.0.0.1:7443" }
	d := start(t, cfg)
	d.awaitReady(t)
	for _, path := range []string{"/", pathAlerts, "/nothing", pathSession} {
		a := d.get(t, path)
		policy := a.header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self' ws://127.0.0.1:*;", "trusted-types 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			checkContains(t, path+": Content-Security-Policy", policy, part)
		}
		checkLacks(t, path+": Content-Security-Policy", policy, "unsafe")
		a.checkHeader(t, path, "X-Content-Type-Options", "nosniff")
		a.checkHeader(t, path, "Referrer-Policy", "no-referrer")
	}
	policy := d.get(t, "/", "Host", "evil.example").header.Get("Content-Security-Policy")
	checkLacks(t, "Content-Security-Policy of a refused request", policy, "ws://")
}

// TestAddress: a taken port is an error, except the default port, which a free one replaces.
func TestAddress(t *testing.T) {
	b := newBus(t)
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	cfg := b.config()
	cfg.Logger, cfg.Addr = discard(), taken.Addr().String()
	err = Run(t.Context(), cfg)
	checkContains(t, "Run on a taken port", fmt.Sprint(err), "TOCSIN_DASHBOARD_ADDR")
	checkContains(t, "Run on a taken port", fmt.Sprint(err), "address already in use")
	cfg.Addr = "0.0.0.0:0"
	err = Run(t.Context(), cfg)
	checkContains(t, "Run beyond loopback without a token", fmt.Sprint(err), "TOCSIN_TOKEN")
	cfg.Addr = ""
	byDefault, err := lc.Listen(t.Context(), "tcp", DefaultAddr)
	if err == nil { // otherwise the port is taken
		defer func() { _ = byDefault.Close() }()
	}
	l, err := cfg.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if l.Addr().String() == DefaultAddr || !strings.HasPrefix(l.Addr().String(), "127.0.0.1:") {
		t.Errorf("address = %s, want another port of 127.0.0.1 than %s", l.Addr(), DefaultAddr)
	}
}
