package docs

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/chromium"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestSDKs runs the environment lines of the senders' pages, and then a shop that has
// no other configuration.
func TestSDKs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ modules, page, line, key, app string }{
		{"otel", "docs/senders/opentelemetry.md", "export OTEL_", "GET:/api/stock/:id:500", "shop"},
		{"sentry", "docs/senders/sentry.md", "export SENTRY_", "POST:/api/stock/:id:500", "checkout"},
	} {
		t.Run(c.modules, func(t *testing.T) {
			dir := e2etest.NodeModules(t, c.modules)
			e2etest.NeedNode(t, 20)
			sys := e2etest.Start(t)
			sh := exec.CommandContext(t.Context(), "sh", "-c", e2etest.OnBus(sys.Bus, e2etest.Block(t, c.page, "sh", c.line))+"\nexec node shop.mjs")
			sh.Dir = dir
			if out, err := sh.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("got %v, want no entry in out\n%s", err, out)
			}
			if a := sys.TakeAlertsUntil(t, c.key)[c.key]; a.App != c.app {
				t.Errorf("got %+v, want App %v", a, c.app)
			}
		})
	}
}

// TestScriptTag opens a page with the script tag of docs/senders/browser.md.
func TestScriptTag(t *testing.T) {
	t.Parallel()
	s, sys := chromium.NewSite(t), e2etest.Start(t)
	chromium.NeedScript(t, sys.Bus.IngestURL)
	s.SetPage("/", e2etest.OnBus(sys.Bus, e2etest.Block(t, "docs/senders/browser.md", "html", "<script"))+`<script>throw new Error("the cart is gone")</script>`)
	s.Open(t, "/").Close()
	if a := sys.TakeAlerts(t, 1)[0]; a.Category != alert.Errors || a.App != "web" || !strings.Contains(a.Title, "the cart is gone") {
		t.Errorf("got %+v, want Category %v, App \"web\" and \"the cart is gone\" in Title", a, alert.Errors)
	}
}

// TestReports opens a page with the header of docs/senders/browser.md, which breaks its
// policy.
func TestReports(t *testing.T) {
	t.Parallel()
	s, sys := chromium.NewSite(t), e2etest.Start(t)
	name, value, found := strings.Cut(e2etest.OnBus(sys.Bus, e2etest.Block(t, "docs/senders/browser.md", "http", "Content-Security-Policy")), ": ")
	if name != "Content-Security-Policy" || !found {
		t.Fatalf("the header is %s, want Content-Security-Policy", name)
	}
	s.SetPage("/", `<img src="http://127.0.0.1:9/pixel.png">`)
	s.SetPolicy("/", value)
	s.Open(t, "/").Close()
	if a := sys.TakeAlerts(t, 1)[0]; a.Category != alert.Security || a.App != "web" || !strings.Contains(a.Detail, "127.0.0.1:9/pixel.png") {
		t.Errorf("got %+v, want Category %v, App \"web\" and \"127.0.0.1:9/pixel.png\" in Detail", a, alert.Security)
	}
}
