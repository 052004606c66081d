package httpguard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

func request(method, host string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "http://placeholder/", http.NoBody)
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

var policy = httpguard.Policy{
	AllowedHosts:   []string{"ingest", "Ingest.Example:7400", "192.168.1.5", "[fd00::1]:7400", "fd00::5"},
	AllowedOrigins: []string{"https://app.example", "http://shop.example:8080", "chrome-extension://abcdef"},
}

func TestCheckHost(t *testing.T) {
	for host, allowed := range map[string]bool{
		"localhost":             true,
		"localhost:7400":        true,
		"localhost:":            true, // an empty port is none
		"127.0.0.1:":            true,
		"[::1]:":                true,
		"LOCALHOST:7400":        true,
		"localhost.:7400":       true,
		"web.localhost:7400":    true,
		"127.0.0.1":             true,
		"127.0.0.1:7400":        true,
		"127.255.0.3:1":         true,
		"[::1]":                 true,
		"[::1]:7400":            true,
		"[0:0:0:0:0:0:0:1]:80":  true,
		"[::ffff:127.0.0.1]:80": true,

		"ingest":                                true, // configured without a port: any port
		"ingest:7400":                           true,
		"ingest:":                               true,
		"ingest.example:":                       false, // configured with a port
		"evil.example:":                         false,
		":":                                     false,
		"localhost::":                           false,
		"INGEST.:80":                            true,
		"ingest.example:7400":                   true,
		"192.168.1.5:9":                         true,
		"[fd00::1]:7400":                        true,
		"[fd00:0::0:1]:7400":                    true,
		"ingest.example:7401":                   false,
		"ingest.example":                        false,
		"[fd00::1]:7401":                        false,
		"[fd00::1]":                             false,
		"[fd00::5]:7400":                        true, // configured without brackets
		"fd00::5":                               false,
		"evil.example":                          false,
		"evil.example:7400":                     false,
		"xlocalhost":                            false,
		"localhost.evil.test":                   false,
		"127.0.0.1.evil.test":                   false,
		"":                                      false,
		":7400":                                 false,
		".":                                     false,
		"..localhost":                           false,
		".localhost":                            false,
		"127.1":                                 false, // short forms are names here
		"2130706433":                            false,
		"0.0.0.0":                               false,
		"[::]":                                  false,
		"::1":                                   false, // no brackets
		"[::1":                                  false,
		"[::1]x":                                false,
		"[::1%25lo]":                            false,
		"[127.0.0.1]":                           false,
		"[localhost]":                           false,
		"[localhost]:1":                         false,
		"localhost:0":                           false,
		"localhost:x":                           false,
		"localhost:70000":                       false,
		"localhost:1:2":                         false,
		"user@localhost":                        false,
		"local host":                            false,
		"localhost\x00":                         false,
		"localhost/x":                           false,
		"evil.example#.localhost":               false,
		strings.Repeat("a.", 150) + "localhost": false,
		strings.Repeat("a", 64) + ".localhost":  false,
	} {
		if err := policy.CheckHost(request("GET", host)); (err == nil) != allowed {
			t.Errorf("Host %q: %v, want allowed = %t", host, err, allowed)
		}
	}
}

func TestCheckHostNamesWhatIsAllowed(t *testing.T) {
	err := httpguard.Policy{}.CheckHost(request("GET", "evil\x1b[2J.example"))
	const want = "host \"evil\u241b[2J.example\" is not allowed: only loopback names, such as localhost and 127.0.0.1, and those in TOCSIN_ALLOWED_HOSTS are"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestOrigin(t *testing.T) {
	const (
		none, own, loopback = httpguard.NoPage, httpguard.OwnPage, httpguard.LoopbackPage
		configured, foreign = httpguard.ConfiguredPage, httpguard.ForeignPage
	)
	for _, c := range []struct {
		name   string
		host   string
		header []string
		want   httpguard.PageKind
	}{
		{"a program", "localhost:7400", nil, none},
		{"own page", "localhost:7400", []string{"Origin", "http://localhost:7400"}, own},
		{"own page, other case", "localhost:7400", []string{"Origin", "HTTP://LocalHost:7400"}, own},
		{"own page on port 80", "localhost", []string{"Origin", "http://localhost"}, own},
		{"own page of a configured host", "ingest:7400", []string{"Origin", "http://ingest:7400"}, own},
		{"own page, IPv6", "[::1]:7400", []string{"Origin", "http://[::1]:7400"}, own},
		{"own page of a configured host, behind a proxy that speaks TLS", "ingest", []string{"Origin", "https://ingest"}, own},
		{"the same, with a port", "ingest:8443", []string{"Origin", "https://ingest:8443"}, own},
		{"another port of that host", "ingest", []string{"Origin", "https://ingest:8443"}, foreign},
		{"behind a proxy, another host", "ingest", []string{"Origin", "https://other"}, foreign},
		{"other scheme", "localhost:7400", []string{"Origin", "https://localhost:7400"}, loopback},
		{"other port", "localhost:7400", []string{"Origin", "http://localhost:3000"}, loopback},
		{"other name of this machine", "localhost:7400", []string{"Origin", "http://127.0.0.1:7400"}, loopback},
		{"below localhost", "localhost:7400", []string{"Origin", "https://shop.localhost"}, loopback},
		{"IPv6", "localhost:7400", []string{"Origin", "http://[::1]:3000"}, loopback},
		{"another scheme of this machine", "localhost:7400", []string{"Origin", "vscode-webview://localhost"}, foreign},
		{"configured", "localhost:7400", []string{"Origin", "https://app.example"}, configured},
		{"configured, default port", "localhost:7400", []string{"Origin", "https://app.example:443"}, configured},
		{"configured, other scheme", "localhost:7400", []string{"Origin", "http://app.example"}, foreign},
		{"configured, other port", "localhost:7400", []string{"Origin", "http://shop.example"}, foreign},
		{"configured with a port", "localhost:7400", []string{"Origin", "http://shop.example:8080"}, configured},
		{"configured extension", "localhost:7400", []string{"Origin", "chrome-extension://abcdef"}, configured},
		{"another extension", "localhost:7400", []string{"Origin", "chrome-extension://zzz"}, foreign},
		{"foreign", "localhost:7400", []string{"Origin", "https://evil.example"}, foreign},
		{"foreign with a known beginning", "localhost:7400", []string{"Origin", "http://localhost:7400.evil.example"}, foreign},
		{"foreign with credentials", "localhost:7400", []string{"Origin", "http://localhost@evil.example"}, foreign},
		{"null", "localhost:7400", []string{"Origin", "null"}, foreign},
		{"empty", "localhost:7400", []string{"Origin", ""}, foreign},
		{"with a path", "localhost:7400", []string{"Origin", "http://localhost:3000/"}, foreign},
		{"with a query", "localhost:7400", []string{"Origin", "http://localhost:3000?"}, foreign},
		{"a list", "localhost:7400", []string{"Origin", "http://localhost:3000 http://evil.example"}, foreign},
		{"twice", "localhost:7400", []string{"Origin", "http://localhost:7400", "Origin", "http://localhost:7400"}, foreign},
		{"an image of a foreign page", "localhost:7400", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, foreign},
		{"a frame of a foreign page", "localhost:7400", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, foreign},
		{"a link on a foreign page", "localhost:7400", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, none},
		{"typed into the address bar", "localhost:7400", []string{"Sec-Fetch-Site", "none"}, none},
		{"own page without Origin", "localhost:7400", []string{"Sec-Fetch-Site", "same-origin"}, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := policy.PageKind(request("GET", c.host, c.header...)); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestOriginPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, origin string
		want            httpguard.PageKind
	}{
		{"https://*.example.com", "https://shop.example.com", httpguard.ConfiguredPage},
		{"https://*.example.com", "https://a.b.example.com:443", httpguard.ConfiguredPage},
		{"https://*.example.com", "https://SHOP.example.com", httpguard.ConfiguredPage},
		{"https://*.example.com", "https://example.com", httpguard.ForeignPage},
		{"https://*.example.com", "https://evilexample.com", httpguard.ForeignPage},
		{"https://*.example.com", "https://example.com.evil.test", httpguard.ForeignPage},
		{"https://*.example.com", "http://shop.example.com", httpguard.ForeignPage},
		{"https://*.example.com", "https://shop.example.com:8443", httpguard.ForeignPage},
		{"https://*.example.com", "null", httpguard.ForeignPage},
		{"https://*.example.com:8443", "https://shop.example.com:8443", httpguard.ConfiguredPage},
		{"https://*.example.com/", "https://shop.example.com", httpguard.ForeignPage},
		{"https://*.", "https://shop.example.com", httpguard.ForeignPage},
		{"https://*", "https://shop.example.com", httpguard.ForeignPage},
		{"https://shop.*.com", "https://shop.example.com", httpguard.ForeignPage},
		{"*", "https://evil.example", httpguard.ConfiguredPage},
		{"*", "chrome-extension://abcdef", httpguard.ConfiguredPage},
		{"*", "http://localhost:3000", httpguard.LoopbackPage},
		{"*", "null", httpguard.ForeignPage},
		{"*", "", httpguard.ForeignPage},
		{"null", "null", httpguard.ForeignPage},
	} {
		p := httpguard.Policy{AllowedOrigins: []string{c.pattern}}
		r := request("POST", "localhost:7400", "Origin", c.origin)
		if got := p.PageKind(r); got != c.want {
			t.Errorf("%q allows %q: %d, want %d", c.pattern, c.origin, got, c.want)
		}
		want := c.origin
		if c.want != httpguard.ForeignPage {
			want = ""
		}
		if got := p.ForeignOrigin(r); got != want {
			t.Errorf("%q, %q: foreign origin %q, want %q", c.pattern, c.origin, got, want)
		}
	}
}

func TestAFormOfAForeignPageIsForeign(t *testing.T) {
	r := request("POST", "localhost", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	if got := policy.PageKind(r); got != httpguard.ForeignPage {
		t.Errorf("PageKind = %d, want ForeignPage", got)
	}
}

func TestTrustedAndSameSite(t *testing.T) {
	for _, c := range []struct {
		name                string
		host                string
		header              []string
		websocket, sameSite bool
	}{
		{"a program", "localhost:1", nil, true, true},
		{"own page", "localhost:1", []string{"Origin", "http://localhost:1"}, true, true},
		{"the dashboard", "localhost:1", []string{"Origin", "http://localhost:7480"}, true, false},
		{"configured", "localhost:1", []string{"Origin", "https://app.example"}, true, false},
		{"foreign", "localhost:1", []string{"Origin", "https://evil.example"}, false, false},
		{"null", "localhost:1", []string{"Origin", "null"}, false, false},
		{"rebound name, own page", "evil.example:1", []string{"Origin", "http://evil.example:1"}, false, false},
		{"rebound name, no page", "evil.example:1", nil, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request("GET", c.host, c.header...)
			if err := policy.CheckTrusted(r); (err == nil) != c.websocket {
				t.Errorf("CheckTrusted = %v, want allowed = %t", err, c.websocket)
			}
			if err := policy.CheckSameSite(r); (err == nil) != c.sameSite {
				t.Errorf("CheckSameSite = %v, want allowed = %t", err, c.sameSite)
			}
		})
	}
}

func FuzzGuard(f *testing.F) {
	f.Add("localhost:7400", "http://localhost:3000")
	f.Add("[::1]:80", "null")
	f.Fuzz(func(t *testing.T, host, origin string) {
		r := request("POST", host, "Origin", origin)
		if policy.CheckTrusted(r) == nil && !policy.PageKind(r).Trusted() {
			t.Error("CheckTrusted of a foreign page = nil, want an error")
		}
		if (httpguard.Policy{}).CheckHost(r) == nil && !strings.Contains(strings.ToLower(host), "localhost") &&
			!strings.Contains(host, "127.") && !strings.Contains(host, "1]") && !strings.Contains(strings.ToLower(host), "7f") {
			t.Errorf("CheckHost(%q) = nil, want an error", host)
		}
	})
}

func BenchmarkGuard(b *testing.B) {
	r := request("POST", "127.0.0.1:7400", "Origin", "http://localhost:3000")
	b.ReportAllocs()
	for b.Loop() {
		if err := policy.CheckTrusted(r); err != nil {
			b.Fatal(err)
		}
	}
}
