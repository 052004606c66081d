package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// TestReadsBeyondLoopback: every listener that other machines can reach wants the token
// for what is read, and none for its health.
func TestReadsBeyondLoopback(t *testing.T) {
	b, err := upWith(t, "--token=s3cret", "--ingest-addr=0.0.0.0:0", "--dashboard-addr=0.0.0.0:0", "--otlp-addr=0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	detector, gateway := fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	env := []string{"TOCSIN_TOKEN=s3cret", "TOCSIN_DETECTOR_HEALTH_ADDR=" + strings.Replace(detector, "127.0.0.1", "0.0.0.0", 1),
		"TOCSIN_GATEWAY_HTTP=" + strings.Replace(gateway, "127.0.0.1", "0.0.0.0", 1)}
	for _, args := range [][]string{{"detector"}, {"gateway", "--autostart=false"}} {
		p, err := harness.Start(binary, b.StateDir, env, args...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Stop(); err != nil {
				t.Errorf("%v\n%s", err, p.Log)
			}
		})
		if !harness.Poll(t.Context(), patienceOfHealth, func() bool { code, _ := healthcheck(t, b.StateDir, env, args[0]); return code == 0 }) {
			t.Fatalf("%v is not ready: %s", args, p.Log)
		}
	}
	for _, at := range []string{b.IngestURL, b.DashboardURL, "http://" + detector, "http://" + gateway} {
		for _, path := range []string{"/healthz", "/readyz"} {
			if a := send(t, "GET", at+path, ""); a.Status != http.StatusOK {
				t.Errorf("%s%s: %d %s, want 200", at, path, a.Status, a.Body)
			}
		}
		for header, want := range map[string]int{"": 401, "Bearer guessed": 401, "Bearer s3cret": 200} {
			if a := send(t, "GET", at+"/metrics", "", "Authorization", header); a.Status != want {
				t.Errorf("%s/metrics with %q: %d %s, want %d", at, header, a.Status, a.Body, want)
			}
		}
	}
	for _, path := range []string{"/api/session", "/api/alerts", "/api/events", "/api/status", "/api/health", "/events/stream"} {
		if a := send(t, "GET", b.DashboardURL+path, ""); a.Status != http.StatusUnauthorized || !strings.Contains(a.Body, "a token is required") {
			t.Errorf("%s: %d %s, want 401", path, a.Status, a.Body)
		}
	}
	if a := send(t, "POST", "http://"+gateway+"/mcp", `{}`, "Content-Type", "application/json", "Authorization", "Bearer guessed"); a.Status != http.StatusUnauthorized || !strings.Contains(a.Body, "the token is not valid") {
		t.Errorf("MCP with a wrong token: %d %s, want 401", a.Status, a.Body)
	}
	if code, stdout, stderr := tocsin(t, b.StateDir, "doctor"); code != 0 {
		t.Errorf("doctor: exit %d\n%s%s", code, stdout, stderr)
	}
}

// TestPageSignIn: beyond loopback the page asks for the token first. It works by
// keyboard alone, keeps the token nowhere, and a sign-out ends it.
func TestPageSignIn(t *testing.T) {
	browser := startBrowser(t)
	b, err := upWith(t, "--token=s3cret", "--dashboard-addr=0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	needsPage(t, b.DashboardURL)
	w := &world{bus: b}
	v := view(browser, t, b.DashboardURL)
	v.sees(t, "the sign-in", `document.activeElement === document.querySelector(".sign-in input[type=password]")`)
	picture(t, v, "sign-in")
	v.press(t, "w", "r", "o", "n", "g", "\r")
	v.sees(t, "that it was wrong", `document.querySelector("[role=alert]")?.textContent === "The token is not valid."`)
	picture(t, v, "sign-in-wrong")
	v.scheme(t, "dark")
	picture(t, v, "sign-in-wrong-dark")
	v.scheme(t, "light")
	v.press(t, "s", "3", "c", "r", "e", "t", "\r") // the wrong one is selected
	v.live(t, "websocket")
	if a := send(t, "POST", w.bus.IngestURL+"/ci-result", `{"status":"failure","name":"test"}`, "Content-Type", "application/json", "Authorization", "Bearer s3cret"); a.Status != http.StatusOK {
		t.Fatalf("a result: %d %s", a.Status, a.Body)
	}
	v.has(t, "CI failure: test")
	if kept := eval[bool](t, v.tab, `JSON.stringify([localStorage, sessionStorage, document.cookie]).includes("s3cret") || document.cookie !== ""`); kept {
		t.Error("a script can read the token, or the cookie")
	}
	picture(t, v, "signed-in")
	v.do(t, chromedp.Navigate(b.DashboardURL+"/#/alerts"))
	v.button(t, "Sign out")
	v.sees(t, "the sign-in again", `document.querySelector(".sign-in input[type=password]")`)
}
