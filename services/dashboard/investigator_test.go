package dashboard

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// upstream stands for an investigator, and records what it is sent.
type upstream struct {
	url string

	mu sync.Mutex
	// answer writes the answer; the request's body was read.
	answer http.HandlerFunc
	sent   []sentRequest
}

// sentRequest is a request as the investigator got it, without the length and the parts that
// net/http removes from the header.
type sentRequest struct {
	method, uri, host string
	header            http.Header
	body              string
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"from":"the investigator"}`)
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Header.Del("Content-Length")
		if via := r.Header.Values("Via"); len(via) != 1 || !strings.HasPrefix(via[0], hopPrefix) {
			t.Errorf("the investigator got Via %q, want that of the dashboard alone", via)
		}
		r.Header.Del("Via")
		u.mu.Lock()
		u.sent = append(u.sent, sentRequest{r.Method, r.RequestURI, r.Host, r.Header, string(body)})
		answer := u.answer
		u.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	u.url = server.URL
	return u
}

// answers sets the answer.
func (u *upstream) answers(answer http.HandlerFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answer = answer
}

// take returns what was sent since the last call.
func (u *upstream) take() []sentRequest {
	u.mu.Lock()
	defer u.mu.Unlock()
	sent := u.sent
	u.sent = nil
	return sent
}

// forwarding returns a handler that forwards to u. change may be nil.
func (u *upstream) forwarding(t *testing.T, change func(*Config)) *handler {
	t.Helper()
	h := newTestHandler(t, func(c *Config) {
		c.Investigator = Investigator{URL: func() string { return u.url }, Secret: "to the investigator"}
		if change != nil {
			change(c)
		}
	})
	t.Cleanup(h.forwarder.transport.CloseIdleConnections)
	return h
}

// ask sends a request to a handler, from this machine unless the header From names another. The
// headers are names and values in turn.
func ask(h http.Handler, method, path string, body io.Reader, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:7480"+path, body)
	r.RemoteAddr = "127.0.0.1:5555"
	for i := 0; i < len(header); i += 2 {
		switch header[i] {
		case "From":
			r.RemoteAddr = header[i+1]
		case "Host":
			r.Host = header[i+1]
		default:
			r.Header.Add(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func mustNetwork(t *testing.T, text string) httpguard.Network {
	t.Helper()
	var n httpguard.Network
	if err := n.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return n
}

// forged are headers by which a client could name a user to the investigator, or which are meant
// for the dashboard alone.
var forged = []string{
	"X-Forwarded-User", "eve", "X-Forwarded-Email", "eve@x", "X-Forwarded-Groups", "admins", "X-Remote-User", "eve", "X-Remote-Groups", "admins",
	"X-Remote-Email", "eve@x", "X-Auth-User", "eve", "X-Tocsin-CLI-User", "eve", "X-Forwarded-For", "192.0.2.9", "X-Forwarded-Host", "evil.example",
	"X-Forwarded-Proto", "https", "X-Real-Ip", "192.0.2.9", "Forwarded", "for=192.0.2.9", "Via", "1.1 evil", "Cookie", "other=1", "Referer", "http://127.0.0.1:7480/",
	"Origin", "http://127.0.0.1:7480", "Sec-Fetch-Site", "same-origin", "Connection", "Idempotency-Key, X-Forwarded-User", "Upgrade", "websocket",
	"User-Agent", "a browser", "Te", "trailers", "Proxy-Authorization", "Basic x", "X-Http-Method-Override", "DELETE",
}

// TestForwardProof checks what the investigator learns of who sends a request: no more than the
// dashboard has checked.
func TestForwardProof(t *testing.T) {
	const proxy = "192.0.2.1:9"
	u := newUpstream(t)
	behind := func(secret, header, network string) *handler {
		return u.forwarding(t, func(c *Config) {
			c.AllowedHosts = []string{"tocsin.example"}
			c.Token, c.ProxySecret, c.Proxy = "s3cret", secret, httpguard.Proxy{Header: header, Networks: []httpguard.Network{mustNetwork(t, network)}}
		})
	}
	open := u.forwarding(t, nil)
	token := u.forwarding(t, func(c *Config) { c.Token = "s3cret" })
	exposed := u.forwarding(t, func(c *Config) { c.Token, c.exposed = "s3cret", true })
	remote, configured := behind("", "", "192.0.2.1"), behind("", "X-Auth-User", "192.0.2.1")
	local, proven := behind("", "", "127.0.0.1"), behind("p", "", "127.0.0.1")
	signedIn := http.Header{"Authorization": {"Bearer s3cret"}}
	asAnn := http.Header{"Authorization": {"Bearer s3cret"}, "X-Forwarded-User": {"ann"}, "X-Tocsin-Proxy": {"to the investigator"}}
	nobody := http.Header{}
	for _, c := range []struct {
		name   string
		h      *handler
		header []string // {cookie} is that of a valid sign-in
		status int
		want   http.Header
	}{
		{"nothing", open, nil, 200, nobody},
		{"forged headers", open, forged, 200, nobody},
		{"a forged proof", open, []string{"X-Forwarded-User", "eve", "X-Tocsin-Proxy", "to the investigator"}, 200, nobody},
		{"forged headers, and no token, beyond loopback", exposed, forged, 401, nil},
		{"what passes", open, []string{"Accept", "application/json", "Accept-Encoding", "gzip", "Idempotency-Key", "a", "Idempotency-Key", "b"}, 200, http.Header{
			"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "Idempotency-Key": {"a", "b"},
		}},
		{"the token", exposed, []string{"Authorization", "Bearer s3cret"}, 200, signedIn},
		{"the token with forged headers", exposed, append([]string{"Authorization", "bearer s3cret"}, forged...), 200, http.Header{"Authorization": {"bearer s3cret"}}},
		{"another token, on loopback", token, []string{"Authorization", "Bearer other"}, 200, http.Header{"Authorization": {"Bearer other"}}},
		{"another scheme, on loopback", token, []string{"Authorization", "Basic eDp5"}, 200, nobody},
		{"a sign-in", exposed, []string{"Cookie", "{cookie}"}, 200, signedIn},
		{"a sign-in behind another sign-in", exposed, []string{"Cookie", "{cookie}", "Authorization", "Basic eDp5"}, 200, signedIn},
		{"a sign-in with another token", exposed, []string{"Cookie", "{cookie}", "Authorization", "Bearer other"}, 200, http.Header{"Authorization": {"Bearer other"}}},
		{"a guessed sign-in", token, []string{"Cookie", signInCookie + "=guessed"}, 200, nobody},
		{"a user of a proxy", remote, []string{"From", proxy, "Host", "localhost", "X-Forwarded-User", "ann"}, 200, asAnn},
		{"a user of a proxy, with its own sign-in", remote, []string{"From", proxy, "X-Forwarded-User", "ann", "Authorization", "Bearer of the proxy"}, 200, asAnn},
		{"a user named twice", remote, []string{"From", proxy, "X-Forwarded-User", "ann", "X-Forwarded-User", "eve"}, 400, nil},
		{"an e-mail of a proxy, beyond loopback", remote, []string{"From", proxy, "Host", "tocsin.example", "X-Forwarded-Email", "ann@x", "X-Remote-User", "bob"}, 200, http.Header{
			"Authorization": {"Bearer s3cret"}, "X-Forwarded-User": {"ann@x"}, "X-Tocsin-Proxy": {"to the investigator"},
		}},
		{"a remote user of a proxy", remote, []string{"From", proxy, "X-Remote-User", "ann"}, 200, asAnn},
		{"a remote user of another machine, beyond loopback", remote, []string{"From", "192.0.2.2:9", "Host", "tocsin.example", "X-Remote-User", "ann"}, 401, nil},
		{"a user named twice, beyond loopback", remote, []string{"From", proxy, "Host", "tocsin.example", "X-Forwarded-User", "ann", "X-Forwarded-User", "eve"}, 400, nil},
		{"groups named twice", remote, []string{"From", proxy, "X-Forwarded-User", "ann", "X-Forwarded-Groups", "a", "X-Forwarded-Groups", "b"}, 400, nil},
		{"another header than the configured one, beyond loopback", configured, []string{"From", proxy, "Host", "tocsin.example", "X-Remote-User", "eve"}, 401, nil},
		{"a user of another machine", remote, []string{"From", "192.0.2.2:9", "X-Forwarded-User", "ann"}, 200, nobody},
		{"a user of this machine, where it is a proxy without a secret", local, []string{"X-Forwarded-User", "ann"}, 200, nobody},
		{"a user of this machine without the secret", proven, []string{"X-Forwarded-User", "ann", "X-Tocsin-Proxy", "q"}, 200, nobody},
		{"a user of this machine with the secret", proven, []string{"X-Forwarded-User", "ann", "X-Tocsin-Proxy", "p"}, 200, asAnn},
		{"a configured header", configured, []string{"From", proxy, "X-Auth-User", "ann", "X-Forwarded-User", "eve"}, 200, http.Header{
			"Authorization": {"Bearer s3cret"}, "X-Auth-User": {"ann"}, "X-Tocsin-Proxy": {"to the investigator"},
		}},
		{"another header than the configured one", configured, []string{"From", proxy, "X-Forwarded-User", "eve"}, 200, nobody},
	} {
		t.Run(c.name, func(t *testing.T) {
			cookie := signInCookie + "=" + c.h.signIns.add(time.Now())
			header := slices.Clone(c.header)
			for i := range header {
				header[i] = strings.ReplaceAll(header[i], "{cookie}", cookie)
			}
			w := ask(c.h, "GET", "/api/v1/sessions?page=2&status=a;b", http.NoBody, header...)
			if w.Code != c.status {
				t.Fatalf("got %d %s, want %d", w.Code, w.Body, c.status)
			}
			var want []sentRequest
			if c.want != nil {
				want = []sentRequest{{"GET", "/api/v1/sessions?page=2&status=a;b", strings.TrimPrefix(u.url, "http://"), c.want, ""}}
			}
			if diff := cmp.Diff(want, u.take(), cmp.AllowUnexported(sentRequest{})); diff != "" {
				t.Errorf("the investigator got (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPageHeader checks that the dashboard's own paths are open only to the user in the configured
// header: a proxy need not remove the others.
func TestPageHeader(t *testing.T) {
	h := newTestHandler(t, func(c *Config) {
		c.Token, c.AllowedHosts, c.Proxy.Networks = "s3cret", []string{"tocsin.example"}, []httpguard.Network{mustNetwork(t, "192.0.2.1")}
	})
	for _, c := range []struct {
		path, header string
		want         int
	}{{pathSession, "X-Forwarded-User", 200}, {pathSession, "X-Remote-User", 401}, {pathSession, "X-Forwarded-Email", 401}, {"/api/v1/sessions", "X-Remote-User", 503}} {
		if w := ask(h, "GET", c.path, http.NoBody, "From", "192.0.2.1:9", "Host", "tocsin.example", c.header, "ann"); w.Code != c.want {
			t.Errorf("GET %s with %s: %d %s, want %d", c.path, c.header, w.Code, w.Body, c.want)
		}
	}
}

// TestForwardWithoutSecret checks that the investigator is sent no empty proof where none is set.
func TestForwardWithoutSecret(t *testing.T) {
	u := newUpstream(t)
	h := u.forwarding(t, func(c *Config) {
		c.Investigator.Secret, c.Proxy.Networks = "", []httpguard.Network{mustNetwork(t, "192.0.2.1")}
	})
	ask(h, "GET", "/api/v1/sessions", http.NoBody, "From", "192.0.2.1:9", "X-Forwarded-User", "ann")
	sent := u.take()
	if want := (http.Header{"X-Forwarded-User": {"ann"}}); len(sent) != 1 || !maps.EqualFunc(sent[0].header, want, slices.Equal[[]string]) {
		t.Errorf("the investigator got %v, want one request with %v", sent, want)
	}
}

// TestForwardPaths checks that nothing outside the API is asked for, and nothing whose path the
// investigator could take for another one.
func TestForwardPaths(t *testing.T) {
	u := newUpstream(t)
	h := u.forwarding(t, nil)
	for _, path := range []string{"/api/v1/sessions", "/api/v1/sessions/01ABC/trace/llm/a-b_c.d~e", "/api/v1/x?y=/../%2e%2e"} {
		w := ask(h, "GET", path, http.NoBody)
		sent := u.take()
		if w.Code != http.StatusOK || len(sent) != 1 || sent[0].uri != path {
			t.Errorf("GET %s: %d %s, the investigator got %v, want it to get the path", path, w.Code, w.Body, sent)
		}
	}
	for _, path := range []string{
		"/api/v1", "/api/v1/", "/api/v1//alerts", "/api/v1/sessions/", "/api/v1/../healthz", "/api/v1/./alerts", "/api/v1/x/../../../metrics", "/api/v1/...",
		"/api/v1/%2e%2e/healthz", "/api/v1/%2E%2E%2Fhealthz", "/api/v1/..%2fhealthz", "/api/v1/sessions%2f..%2f..%2fhealthz", "/api/v1/sessions/a%2Fb", "/api/v1%2Falerts", "/api%2Fv1/alerts",
		"/api/v1/a%5c..%5cb", "/api/v1/%252e%252e/healthz", "/api/v1/%61lerts", "/api/v1/a;b", "/api/v1/a%00", "/api/v1/a%0d%0aX:y", "/api/v1/a@b", "/api/v1/a:b", "/api/v1/é",
		"/api/v2/sessions", "/api/v1x/sessions",
	} {
		for _, method := range []string{"GET", "POST"} {
			w := ask(h, method, path, http.NoBody)
			if sent := u.take(); w.Code != http.StatusNotFound || len(sent) != 0 {
				t.Errorf("%s %s: %d %s, the investigator got %v, want 404 and nothing", method, path, w.Code, w.Body, sent)
			}
		}
	}
	for _, method := range []string{"PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
		w := ask(h, method, "/api/v1/sessions", http.NoBody)
		if sent := u.take(); w.Code != http.StatusMethodNotAllowed || len(sent) != 0 {
			t.Errorf("%s: %d %s, the investigator got %v, want 405 and nothing", method, w.Code, w.Body, sent)
		}
	}
}

// TestForwardWrites checks which bodies pass, and that pages of other origins can send none.
func TestForwardWrites(t *testing.T) {
	u := newUpstream(t)
	h := u.forwarding(t, func(c *Config) { c.Token = "s3cret" })
	full := strings.Repeat("x", maxForwarded)
	const json, bearer = "application/json", "Bearer s3cret"
	for _, c := range []struct {
		name, body string
		header     []string
		chunked    bool
		status     int
	}{
		{"JSON", `{"data":"x"}`, []string{"Content-Type", json}, false, 200},
		{"JSON with a charset", `{"data":"x"}`, []string{"Content-Type", json + "; charset=utf-8"}, false, 200},
		{"JSON of the page", `{"data":"x"}`, []string{"Content-Type", json, "Origin", "http://127.0.0.1:7480"}, false, 200},
		{"nothing", "", nil, false, 200},
		{"nothing, as JSON", "", []string{"Content-Type", json}, false, 200},
		{"JSON without a length", `{"data":"x"}`, []string{"Content-Type", json}, true, 200},
		{"4 MiB", full, []string{"Content-Type", json}, false, 200},
		{"4 MiB without a length", full, []string{"Content-Type", json}, true, 200},
		{"over 4 MiB", full + "x", []string{"Content-Type", json}, false, 413},
		{"over 4 MiB without a length", full + "x", []string{"Content-Type", json}, true, 413},
		{"text", `{"data":"x"}`, []string{"Content-Type", "text/plain"}, false, 415},
		{"a form", `{"data":"x"}`, []string{"Content-Type", "multipart/form-data; boundary=x"}, false, 415},
		{"no type", `{"data":"x"}`, nil, false, 415},
		{"no type and no length", `{"data":"x"}`, nil, true, 415},
		{"two types", `{"data":"x"}`, []string{"Content-Type", json, "Content-Type", json}, false, 415},
		{"text without a body", "", []string{"Content-Type", "text/plain"}, false, 415},
		{"a foreign page", `{"data":"x"}`, []string{"Content-Type", json, "Origin", "https://evil.example"}, false, 403},
		{"another page of this machine", `{"data":"x"}`, []string{"Content-Type", json, "Origin", "http://localhost:3000"}, false, 403},
		{"a page without an origin", `{"data":"x"}`, []string{"Content-Type", json, "Origin", "null"}, false, 403},
		{"an embedding page", `{"data":"x"}`, []string{"Content-Type", json, "Sec-Fetch-Site", "cross-site"}, false, 403},
		{"another host", `{"data":"x"}`, []string{"Content-Type", json, "Host", "evil.example"}, false, 403},
	} {
		var body io.Reader = strings.NewReader(c.body)
		if c.chunked {
			body = io.MultiReader(body) // net/http knows no length of it
		}
		w := ask(h, "POST", "/api/v1/alerts", body, append([]string{"Authorization", bearer}, c.header...)...)
		sent := u.take()
		if w.Code != c.status || c.status != http.StatusOK && !strings.HasPrefix(w.Body.String(), `{"error":"`) {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.status)
		}
		if passed := len(sent) == 1 && sent[0].body == c.body && sent[0].method == "POST"; passed != (c.status == http.StatusOK) || len(sent) > 1 {
			t.Errorf("%s: the investigator got %d requests, the body complete: %t, want %t", c.name, len(sent), passed, !passed)
		}
	}
	if w := ask(h, "POST", "/api/v1/alerts", strings.NewReader("{}"), "Content-Type", json); w.Code != http.StatusUnauthorized || len(u.take()) != 0 {
		t.Errorf("a write without the token: %d %s, want 401", w.Code, w.Body)
	}
}

// TestForwardAnswers checks what passes of an answer: JSON with its status, and no header by which
// the investigator could act on the page's origin.
func TestForwardAnswers(t *testing.T) {
	const json = "application/json"
	u := newUpstream(t)
	h := u.forwarding(t, nil)
	own := ask(h, "GET", "/api/v1/a%2Fb", http.NoBody).Header() // of the dashboard alone
	for _, c := range []struct {
		name   string
		status int
		header []string
		body   string
		want   int
		kept   http.Header
	}{
		{"an answer", 200, []string{"Content-Type", json}, `{"a":1}`, 200, http.Header{"Content-Type": {json}, "Content-Length": {"7"}}},
		{"202", 202, []string{"Content-Type", json}, `{}`, 202, http.Header{"Content-Type": {json}, "Content-Length": {"2"}}},
		{"an error", 404, []string{"Content-Type", json}, `{"error":"no"}`, 404, http.Header{"Content-Type": {json}, "Content-Length": {"14"}}},
		{"a full queue", 429, []string{"Content-Type", json, "Retry-After", "10"}, `{}`, 429, http.Header{"Content-Type": {json}, "Content-Length": {"2"}, "Retry-After": {"10"}}},
		{"a refusal", 401, []string{"Content-Type", json, "WWW-Authenticate", "Bearer"}, `{}`, 401, http.Header{"Content-Type": {json}, "Content-Length": {"2"}, "Www-Authenticate": {"Bearer"}}},
		{"a failure", 500, []string{"Content-Type", json}, `{}`, 500, http.Header{"Content-Type": {json}, "Content-Length": {"2"}}},
		{"other headers", 200, []string{
			"Content-Type", json, "Set-Cookie", "a=b", "Access-Control-Allow-Origin", "*", "Content-Security-Policy", "default-src *", "Location", "/x",
			"Refresh", "0", "Cache-Control", "public", "Clear-Site-Data", "*", "Service-Worker-Allowed", "/", "Link", "</x>; rel=preload", "X-Frame-Options", "ALLOWALL",
		}, `{}`, 200, http.Header{"Content-Type": {json}, "Content-Length": {"2"}}},
		{"a redirect", 302, []string{"Content-Type", json, "Location", "https://evil.example"}, `{}`, 502, nil},
		{"a page", 200, []string{"Content-Type", "text/html"}, `<script>`, 502, nil},
		{"no type", 200, []string{"Content-Type", ""}, `{}`, 502, nil},
		{"no content", 204, nil, "", 502, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			u.answers(func(w http.ResponseWriter, _ *http.Request) {
				for i := 0; i < len(c.header); i += 2 {
					w.Header().Set(c.header[i], c.header[i+1])
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			w := ask(h, "GET", "/api/v1/sessions", http.NoBody)
			if w.Code != c.want {
				t.Fatalf("got %d %s, want %d", w.Code, w.Body, c.want)
			}
			if c.kept == nil {
				if !strings.HasPrefix(w.Body.String(), `{"error":"`) || w.Header().Get("Location") != "" {
					t.Errorf("got %v %s, want an error of the dashboard", w.Header(), w.Body)
				}
				return
			}
			want := own.Clone()
			want.Set("Cache-Control", "no-store")
			for _, name := range []string{"Content-Type", "Content-Length"} {
				want.Del(name)
			}
			maps.Copy(want, c.kept)
			got := w.Header()
			got.Del("Date")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if w.Body.String() != c.body {
				t.Errorf("body = %q, want %q", w.Body, c.body)
			}
		})
	}
}

// TestForwardStreams checks that an answer of unknown length passes whole, and that one that breaks
// off does not look like a whole one.
func TestForwardStreams(t *testing.T) {
	part := bytes.Repeat([]byte(" "), 1<<16)
	u := newUpstream(t)
	h := u.forwarding(t, nil)
	for _, breaks := range []bool{false, true} {
		u.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for range 8 {
				_, _ = w.Write(part)
				_ = http.NewResponseController(w).Flush()
			}
			if breaks {
				panic(http.ErrAbortHandler)
			}
		})
		server := httptest.NewServer(h)
		resp, err := server.Client().Get(server.URL + "/api/v1/sessions")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		server.Close()
		if (err != nil) != breaks || !breaks && len(body) != 8*len(part) {
			t.Errorf("breaks off: %t: got %d bytes, %v, want %d bytes, or an error where it breaks off", breaks, len(body), err, 8*len(part))
		}
	}
}

// TestForwardUnreachable checks the answers where no investigator runs.
func TestForwardUnreachable(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + closed.Addr().String()
	_ = closed.Close()
	address := ""
	h := newTestHandler(t, func(cfg *Config) { cfg.Investigator.URL = func() string { return address } })
	for _, c := range []struct{ name, address, says string }{
		{"no URL", "", "no investigator runs"},
		{"one that is gone", gone, "does not answer"},
		{"none again", "", "no investigator runs"},
	} {
		address = c.address
		w := ask(h, "POST", "/api/v1/alerts", strings.NewReader("{}"), "Content-Type", "application/json")
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), c.says) || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %s, want 503 with Retry-After and %q", c.name, w.Code, w.Header(), w.Body, c.says)
		}
	}
}

// TestForwardTimeout checks that an investigator that does not answer holds up no reader.
func TestForwardTimeout(t *testing.T) {
	u := newUpstream(t)
	left := make(chan struct{})
	u.answers(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(left)
	})
	h := u.forwarding(t, nil)
	h.forwarder.timeout = 50 * time.Millisecond
	w := ask(h, "GET", "/api/v1/sessions", http.NoBody)
	if w.Code != http.StatusGatewayTimeout || !strings.Contains(w.Body.String(), "within 50ms") {
		t.Errorf("got %d %s, want 504", w.Code, w.Body)
	}
	if len(u.take()) == 1 { // else the time was over before the request was sent
		<-left
	}
}

// TestForwardPrefix: a path in the URL of the investigator stands before the paths of its API.
func TestForwardPrefix(t *testing.T) {
	u := newUpstream(t)
	base := u.url
	h := u.forwarding(t, func(c *Config) { c.Investigator.URL = func() string { return base + "/tocsin/x/" } })
	ask(h, "GET", "/api/v1/sessions?page=2", http.NoBody)
	if sent := u.take(); len(sent) != 1 || sent[0].uri != "/tocsin/x/api/v1/sessions?page=2" {
		t.Errorf("the investigator got %+v, want the path below the one of its URL", sent)
	}
}

// TestForwardLoop: a dashboard whose investigator is itself, or another dashboard that leads back to
// it, answers 508 after one round. A dashboard behind a dashboard works.
func TestForwardLoop(t *testing.T) {
	var mu sync.Mutex
	requests := 0
	dashboard := func(to func() string) string {
		h := newTestHandler(t, func(c *Config) { c.Investigator = Investigator{URL: to} })
		t.Cleanup(h.forwarder.transport.CloseIdleConnections)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			requests++
			mu.Unlock()
			h.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	var itself, first string
	itself = dashboard(func() string { return itself })
	second := dashboard(func() string { return first })
	first = dashboard(func() string { return second })
	u := newUpstream(t)
	h := u.forwarding(t, nil)
	behind := httptest.NewServer(h)
	t.Cleanup(behind.Close)
	chained := newTestHandler(t, func(c *Config) { c.Investigator.URL = func() string { return behind.URL } })
	t.Cleanup(chained.forwarder.transport.CloseIdleConnections)
	for _, c := range []struct {
		name, url string
		requests  int
	}{{"itself", itself, 2}, {"another one and back", first, 3}} {
		mu.Lock()
		requests = 0
		mu.Unlock()
		answer, err := http.Get(c.url + "/api/v1/sessions")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		mu.Lock()
		if err != nil || answer.StatusCode != http.StatusLoopDetected || !strings.Contains(string(body), "TOCSIN_INVESTIGATOR_URL") || requests != c.requests {
			t.Errorf("%s: %d %s, %v after %d requests, want 508 that names the setting after %d", c.name, answer.StatusCode, body, err, requests, c.requests)
		}
		mu.Unlock()
	}
	http.DefaultClient.CloseIdleConnections()
	if w := ask(chained, "GET", "/api/v1/sessions", http.NoBody, "Via", "1.1 other, 1.1 tocsin"); w.Code != http.StatusOK {
		t.Errorf("a dashboard behind a dashboard: %d %s, want 200", w.Code, w.Body)
	}
}

// TestInvestigatorURL checks which URLs are refused.
func TestInvestigatorURL(t *testing.T) {
	for address, valid := range map[string]bool{
		"http://127.0.0.1:7490": true, "http://127.0.0.1:7490/": true, "https://investigator.example": true, "http://[::1]:7490": true,
		"127.0.0.1:7490": false, "ftp://x": false, "http://": false, "http://u:hunter2@x": false, "http://x/api": true, "http://x/../api": false, "http://x?y": false, "http://x#y": false, "http://x y": false, "unix:/run/x": false,
	} {
		err := Flags{InvestigatorURL: address}.Validate()
		if (err == nil) != valid {
			t.Errorf("Validate with %s = %v, want valid = %t", address, err, valid)
		}
		if strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("Validate with %s = %v, want no password in it", address, err)
		}
	}
}
