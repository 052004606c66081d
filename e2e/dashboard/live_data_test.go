package dashboard

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/chromium"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// TestLivePage checks that the page of 20 lines in docs/build-a-dashboard.md shows
// alerts over the websocket, with the dashboard's credential. The test serves the
// module of the CDN.
func TestLivePage(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	dir := e2etest.NodeModules(t, "page")
	e2etest.NeedNode(t, 20)
	cmd := exec.CommandContext(t.Context(), "node", "bundle.mjs")
	cmd.Dir = dir
	core, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	sys := e2etest.Start(t)
	seed, err := os.ReadFile(statedir.At(sys.Bus.StateDir).Credential(string(bus.RoleDashboard)))
	if err != nil {
		t.Fatal(err)
	}
	text := e2etest.OnBus(sys.Bus, e2etest.Block(t, "docs/build-a-dashboard.md", "html", "<!doctype"))
	for from, to := range map[string]string{
		"https://esm.sh/@nats-io/nats-core@3.4.0": "/nats-core.js",
		"SU...":               strings.TrimSpace(string(seed)),
		"ws://127.0.0.1:7443": sys.Bus.NATSWSURL,
	} {
		if strings.Count(text, from) != 1 {
			t.Fatalf("the page has %d times %q, want it once", strings.Count(text, from), from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, media := []byte(text), "text/html; charset=utf-8"
		if r.URL.Path == "/nats-core.js" {
			body, media = core, "text/javascript; charset=utf-8"
		}
		rw.Header().Set("Content-Type", media)
		_, _ = rw.Write(body) // the browser reports errors
	}))
	t.Cleanup(site.Close)
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	v := &viewer{&chromium.Tab{Ctx: ctx, Close: cancel}}
	v.Do(t, chromedp.Navigate(site.URL))
	next := 'a'
	if !harness.Poll(t.Context(), 20*time.Second, func() bool {
		if next <= 'z' {
			sys.PostServerError(t, "web", "/page"+string(next)) // until the page is connected
			next++
		}
		return chromium.Eval[bool](t, v.Tab, `document.querySelector("#alerts li")?.textContent.startsWith("error network_errors Server error: GET /page") ?? false`)
	}) {
		t.Errorf("the page after 20s = %s, want a server error in its list", chromium.Eval[string](t, v.Tab, `document.body.innerText`))
	}
}
