package dashboard

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tocsin-bus/tocsin/e2e/harness/chromium"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// pictures is the folder for screenshots of the page.
var pictures = flag.String("pictures", os.Getenv("TOCSIN_E2E_PICTURES"), "a folder for pictures of the dashboard; empty: none")

// TestPageAccessibility checks that axe-core finds no violation in any view, light and
// dark, on a desktop and on a phone.
func TestPageAccessibility(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	axe, err := os.ReadFile(filepath.Join(e2etest.NodeModules(t, "page"), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	sys := e2etest.Start(t)
	needsPage(t, sys.Bus.DashboardURL)
	for i := range 4 {
		sys.PostVitals(t, "/cart", 2500+float64(i))
	}
	sys.PostVitals(t, "/cart", 3900)
	sys.PostVitals(t, "/cart", 2500)
	sys.PostLogs(t, "error", 3, func(i int) string { return fmt.Sprintf("TypeError: item %c is undefined", 'a'+i) })
	sys.PostServerError(t, "checkout", "/pay")
	sys.PostEvents(t,
		map[string]any{"kind": "security", "app": "web", "security": map[string]any{"type": "csp", "message": "refused", "blocked_url": "https://evil.example/x.js"}},
		map[string]any{"kind": "memory", "app": "web", "memory": map[string]any{"used_bytes": 80, "limit_bytes": 100}})
	for ref, commit := range map[string]string{"main": "abc123def456", "feature/checkout-with-a-long-name": "0123456789ab"} {
		sys.PostCI(t, map[string]any{"status": "success", "name": "lint", "ref": ref, "commit": commit, "summary": "clean", "duration_ms": 4500})
		sys.PostCI(t, map[string]any{"status": "failure", "name": "test", "ref": ref, "commit": commit, "summary": "12 tests passed, 2 failed", "url": "https://ci.example/run/123", "failures": []map[string]any{{"name": "test_login", "message": "Expected 200, got 401"}}})
	}
	sys.Call(t, "configure", map[string]any{"action": "silence", "app": "checkout", "minutes": 30, "reason": "deploy"})
	sys.Call(t, "configure", map[string]any{"action": "noise", "noise_action": "add", "pattern": "ResizeObserver loop"})
	sys.Call(t, "notify", map[string]any{"message": "The deploy broke the cart: rolled back.", "level": "error"})
	sys.Call(t, "configure_streaming", map[string]any{"action": "enable"})

	v := view(browser, t, sys.Bus.DashboardURL)
	v.sees(t, "CI", shownTitles+`.some(x => x.startsWith("CI failure"))`)
	steps := []struct {
		name, ready string
		keys        []string
	}{
		{"alerts", `document.querySelector(".rows [role=row]")`, []string{"1"}},
		{"drawer", `document.querySelector("aside .events, aside .muted")`, []string{"j", kb.Enter}},
		{"silence", `document.querySelector("dialog form")`, []string{kb.Escape, "j", "s"}},
		{"help", `document.querySelector("dialog .keys")`, []string{kb.Escape, "?"}},
		{"ci", `document.querySelector("table.ci")`, []string{kb.Escape, "2"}},
		{"charts", `document.querySelector(".vital canvas") && document.querySelector(".rate canvas")`, []string{"3"}},
		{"silences", `document.querySelector("th.pattern")`, []string{"4"}},
		{"notices", `document.querySelector(".notices li")`, []string{"5"}},
		{"services", `document.querySelectorAll("main tbody tr").length > 3`, []string{"6"}},
	}
	for _, size := range []struct {
		name          string
		width, height int64
	}{{"desk", 1280, 800}, {"phone", 360, 740}} {
		for _, scheme := range []string{"light", "dark"} {
			v.Do(t, chromedp.EmulateViewport(size.width, size.height))
			v.scheme(t, scheme)
			for _, step := range steps {
				name := size.name + "-" + scheme + "-" + step.name
				v.press(t, step.keys...)
				v.sees(t, name, step.ready)
				if over := chromium.Eval[int](t, v.Tab, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
					t.Errorf("%s is %d px wider than the window, want 0", name, over)
				}
				picture(t, v, name)
				found := chromium.Eval[[]string](t, v.Tab, `(async () => {
					if (!window.axe) { `+string(axe)+` }
					const { violations } = await axe.run(document, { resultTypes: ["violations"] });
					return violations.map(x => x.impact + " " + x.id + ": " + x.nodes.map(n => n.html.slice(0, 200) + " " + n.failureSummary).join("; "));
				})()`)
				for _, violation := range found {
					t.Errorf("%s: axe found %s, want no violation", name, violation)
				}
			}
			v.press(t, "1")
		}
	}
	v.fine(t)
}

// picture writes a screenshot to the folder of -pictures.
func picture(t *testing.T, v *viewer, name string) {
	t.Helper()
	if *pictures == "" {
		return
	}
	if err := os.MkdirAll(*pictures, 0o750); err != nil {
		t.Fatal(err)
	}
	data, err := chromedp.Run(v.Ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, strings.ReplaceAll(name, "/", "_")+".png"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}
