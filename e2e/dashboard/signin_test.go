package dashboard

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tocsin-bus/tocsin/e2e/harness/chromium"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestPageSignIn checks that beyond loopback the page asks for the token first. Sign-in
// works by keyboard alone, the token is stored nowhere, and sign-out ends it.
func TestPageSignIn(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	b := e2etest.Up(t, "--token=s3cret", "--dashboard-addr=0.0.0.0:0")
	needsPage(t, b.DashboardURL)
	sys := &e2etest.System{Bus: b}
	v := view(browser, t, b.DashboardURL)
	v.sees(t, "the focus in the sign-in", `document.activeElement === document.querySelector(".sign-in input[type=password]")`)
	picture(t, v, "sign-in")
	v.press(t, "w", "r", "o", "n", "g", "\r")
	v.sees(t, "the error about the token", `document.querySelector("[role=alert]")?.textContent === "The token is not valid."`)
	picture(t, v, "sign-in-wrong")
	v.scheme(t, "dark")
	picture(t, v, "sign-in-wrong-dark")
	v.scheme(t, "light")
	v.press(t, "s", "3", "c", "r", "e", "t", "\r") // the wrong one is selected
	v.live(t, "websocket")
	if a := e2etest.Send(t, "POST", sys.Bus.IngestURL+"/ci-result", `{"status":"failure","name":"test"}`, "Content-Type", "application/json", "Authorization", "Bearer s3cret"); a.Status != http.StatusOK {
		t.Fatalf("a result: %d %s, want Status 200", a.Status, a.Body)
	}
	v.has(t, "CI failure: test")
	if kept := chromium.Eval[bool](t, v.Tab, `JSON.stringify([localStorage, sessionStorage, document.cookie]).includes("s3cret") || document.cookie !== ""`); kept {
		t.Error("a script can read the token or the cookie, want neither")
	}
	picture(t, v, "signed-in")
	v.Do(t, chromedp.Navigate(b.DashboardURL+"/#/alerts"))
	v.button(t, "Sign out")
	v.sees(t, "the sign-in again", `document.querySelector(".sign-in input[type=password]")`)
}
