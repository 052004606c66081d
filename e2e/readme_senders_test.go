package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// readmeBlock gives the README's block of a language that begins with a text,
// for an intake at another address.
func readmeBlock(t *testing.T, language, begins, intake string) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	must(t, err)
	for _, block := range fences(string(text), language) {
		if strings.HasPrefix(block, begins) {
			return strings.ReplaceAll(block, "127.0.0.1:7400", strings.TrimPrefix(intake, "http://"))
		}
	}
	t.Fatalf("the README has no %s block that begins with %q", language, begins)
	return ""
}

// TestReadmeSDKs runs the README's lines for SDKs, and after them a shop that is
// told nothing else.
func TestReadmeSDKs(t *testing.T) {
	for _, c := range []struct{ modules, line, key, app string }{
		{"otel", "export OTEL_", "GET:/api/stock/:id:500", "shop"},
		{"sentry", "export SENTRY_", "POST:/api/stock/:id:500", "checkout"},
	} {
		t.Run(c.modules, func(t *testing.T) {
			dir := nodeModules(t, c.modules)
			skipOldNode(t, 20)
			w := start(t)
			sh := exec.CommandContext(t.Context(), "sh", "-c", readmeBlock(t, "sh", c.line, w.bus.IngestURL)+"\nexec node shop.mjs")
			sh.Dir = dir
			if out, err := sh.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v\n%s", err, out)
			}
			if a := w.raised(t, c.key)[c.key]; a.App != c.app {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestReadmePage is a page with the README's script tag.
func TestReadmePage(t *testing.T) {
	s, w := newSite(t), start(t)
	needsScript(t, w.bus.IngestURL)
	s.page("/", readmeBlock(t, "html", "<script", w.bus.IngestURL)+`<script>throw new Error("the cart is gone")</script>`)
	s.open(t, "/").close()
	if a := w.alerts(t, 1)[0]; a.Category != alert.Errors || a.App != "web" || !strings.Contains(a.Title, "the cart is gone") {
		t.Errorf("%+v", a)
	}
}

// TestReadmeReports is a page with the README's header, which breaks its policy.
func TestReadmeReports(t *testing.T) {
	s, w := newSite(t), start(t)
	name, value, found := strings.Cut(readmeBlock(t, "http", "Content-Security-Policy", w.bus.IngestURL), ": ")
	if name != "Content-Security-Policy" || !found {
		t.Fatalf("the README has the header %s", name)
	}
	s.page("/", `<img src="http://127.0.0.1:9/pixel.png">`)
	s.policy("/", value)
	s.open(t, "/").close()
	if a := w.alerts(t, 1)[0]; a.Category != alert.Security || a.App != "web" || !strings.Contains(a.Detail, "127.0.0.1:9/pixel.png") {
		t.Errorf("%+v", a)
	}
}
