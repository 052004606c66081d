package investigate

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/investigation"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
)

// forged are headers by which a client could name a user to the investigator.
var forged = []string{
	"X-Forwarded-User", "eve", "X-Forwarded-Email", "eve@x", "X-Remote-User", "eve", "X-Forwarded-Groups", "admins", "X-Remote-Groups", "admins",
	"X-Tocsin-CLI-User", "eve",
}

// TestDashboardAPI submits through the dashboard with each proof that it accepts, and checks what
// the investigator takes for the author.
func TestDashboardAPI(t *testing.T) {
	t.Parallel()
	const token, secret = "open-sesame", "between-proxies"
	bearer := []string{"Authorization", "Bearer " + token}
	sys := investigation.Start(t, plain+"\ndefaults: { llm_provider: chat }\n", "TOCSIN_TOKEN="+token, "TOCSIN_TRUSTED_PROXIES=127.0.0.1", "TOCSIN_PROXY_SECRET="+secret)
	sys.Token = token
	subject := sys.Models.Script(func(q turn) modeltest.Answer { return q.Say("nothing to see") })
	api := sys.Bus.DashboardURL + investigation.API
	cookie := signIn(t, sys.Bus.DashboardURL, token)
	accepted := 0
	for _, c := range []struct {
		name   string
		header []string
		status int
		author string
	}{
		{"nothing", nil, 401, ""},
		{"forged headers", forged, 401, ""},
		{"another token", []string{"Authorization", "Bearer other"}, 401, ""},
		{"the token", bearer, 202, "api-client"},
		{"the token and forged headers", append(bearer, forged...), 202, "api-client"},
		{"the page's cookie", []string{"Cookie", cookie}, 202, "api-client"},
		{"the page's cookie and forged headers", append([]string{"Cookie", cookie}, forged...), 202, "api-client"},
		{"another cookie", []string{"Cookie", "tocsin_session=guessed"}, 401, ""},
		{"the page's cookie on another page", []string{"Cookie", cookie, "Origin", "https://evil.example"}, 403, ""},
		{"a proxy", []string{"X-Tocsin-Proxy", secret, "X-Forwarded-User", "ann", "X-Remote-User", "bob"}, 202, "ann"},
		{"a proxy that names an e-mail", []string{"X-Tocsin-Proxy", secret, "X-Forwarded-Email", "ann@x"}, 202, "ann@x"},
		{"a proxy that names a remote user", []string{"X-Tocsin-Proxy", secret, "X-Remote-User", "bob"}, 202, "bob"},
		{"a proxy without a user", []string{"X-Tocsin-Proxy", secret}, 401, ""},
		{"a proxy that names two", []string{"X-Tocsin-Proxy", secret, "X-Forwarded-User", "ann", "X-Forwarded-User", "eve"}, 400, ""},
		{"a proxy that names groups twice", []string{"X-Tocsin-Proxy", secret, "X-Forwarded-User", "ann", "X-Remote-Groups", "a", "X-Remote-Groups", "b"}, 400, ""},
		{"a proxy with a wrong secret", []string{"X-Tocsin-Proxy", "guess", "X-Forwarded-User", "eve"}, 401, ""},
	} {
		a := postTo(t, api+"/alerts", `{"data":"The service `+subject+` restarts"}`, c.header...)
		if a.Status != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, a.Status, a.Body, c.status)
			continue
		}
		if a.Status == http.StatusAccepted {
			accepted++
			if got := sys.Session(t, sessionOf(t, a)).Author; got != c.author {
				t.Errorf("%s: author %q, want %q", c.name, got, c.author)
			}
		}
	}
	if a := e2etest.Send(t, http.MethodGet, api+"/sessions?page_size=1", ""); a.Status != http.StatusOK || !strings.Contains(a.Body, fmt.Sprintf(`"total_items":%d}`, accepted)) {
		t.Errorf("the list through the dashboard: %d %s, want %d sessions", a.Status, a.Body, accepted)
	}
}

// postTo posts JSON with headers, names and values in turn. A name may be repeated.
func postTo(t *testing.T, url, body string, header ...string) harness.Answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	a, err := harness.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// signIn signs a browser in at the dashboard, and returns its cookie.
func signIn(t *testing.T, url, token string) string {
	t.Helper()
	a := e2etest.Send(t, http.MethodPost, url+"/api/sign-in", `{"token":"`+token+`"}`)
	cookie, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
	if a.Status != http.StatusOK || cookie == "" {
		t.Fatalf("sign-in: %d %s, want 200 with a cookie", a.Status, a.Body)
	}
	return cookie
}

// sessionOf returns the session of the answer to a submission.
func sessionOf(t *testing.T, a harness.Answer) string {
	t.Helper()
	var submitted struct {
		SessionID string `json:"session_id"`
	}
	if err := json.Unmarshal([]byte(a.Body), &submitted); err != nil || submitted.SessionID == "" {
		t.Fatalf("got %d %s, %v, want a session", a.Status, a.Body, err)
	}
	return submitted.SessionID
}

// TestDashboardProof: without a secret in the settings, the dashboard of tocsin up proves itself to
// its investigator, and no other program of the machine can.
func TestDashboardProof(t *testing.T) {
	t.Parallel()
	proxy := ownAddress(t)
	const token = "open-sesame"
	sys := investigation.Prepare(t, plain+"\ndefaults: { llm_provider: chat }\n", "TOCSIN_TOKEN="+token, "TOCSIN_TRUSTED_PROXIES="+proxy)
	sys.Token = token
	sys.Up(t, "--dashboard-addr=0.0.0.0:0")
	t.Cleanup(func() {
		if err := sys.Bus.Stop(); err != nil {
			t.Errorf("stop tocsin up: %v\n%s", err, sys.Bus.Log)
		}
	})
	subject := sys.Models.Script(func(q turn) modeltest.Answer { return q.Say("nothing to see") })
	port := e2etest.PortOf(t, sys.Bus.DashboardURL)
	body := `{"data":"The service ` + subject + ` restarts"}`
	a := e2etest.Send(t, http.MethodPost, "http://"+net.JoinHostPort(proxy, port)+"/api/v1/alerts", body, "Host", "localhost:"+port, "X-Forwarded-User", "ann")
	if a.Status != http.StatusAccepted {
		t.Fatalf("a user of the proxy: %d %s, want 202", a.Status, a.Body)
	}
	if got := sys.Session(t, sessionOf(t, a)).Author; got != "ann" {
		t.Errorf("author %q, want ann", got)
	}
	for _, url := range []string{sys.Bus.InvestigatorURL, "http://127.0.0.1:" + port} {
		for _, proof := range []string{"", "guess"} {
			a := e2etest.Send(t, http.MethodPost, url+"/api/v1/alerts", body, "X-Tocsin-Proxy", proof, "X-Forwarded-User", "eve")
			if a.Status != http.StatusUnauthorized {
				t.Errorf("a program of this machine with the proof %q at %s: %d %s, want 401", proof, url, a.Status, a.Body)
			}
		}
	}
}

// ownAddress returns an address of this machine that is not loopback.
func ownAddress(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		if n, ok := addr.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}

// TestDashboardWithoutInvestigator: the API is 503, in the investigator's words.
func TestDashboardWithoutInvestigator(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		a := e2etest.Send(t, method, b.DashboardURL+"/api/v1/alerts", "")
		if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || !strings.Contains(a.Body, `{"error":"no investigator runs: `) {
			t.Errorf("%s without an investigator: %d %v %s, want 503 with Retry-After and the reason", method, a.Status, a.Header, a.Body)
		}
	}
}

// TestDashboardLoop: a dashboard with its own address as that of the investigator answers 508.
func TestDashboardLoop(t *testing.T) {
	t.Parallel()
	addr := fmt.Sprintf("127.0.0.1:%d", e2etest.FreePort(t))
	b := e2etest.Up(t, "--dashboard-addr="+addr, "--investigator-url=http://"+addr)
	if a := e2etest.Send(t, http.MethodGet, b.DashboardURL+"/api/v1/sessions", ""); a.Status != http.StatusLoopDetected || !strings.Contains(a.Body, "TOCSIN_INVESTIGATOR_URL") {
		t.Errorf("got %d %s, want 508 that names the setting", a.Status, a.Body)
	}
}
