package pagescript

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/chromium"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestPagesInABrowser checks in a real browser what pages of this machine and of
// another site may send.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	sys := e2etest.Start(t)
	page := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte("<!doctype html><title>a page</title>")) // the browser reports errors
	}))
	defer page.Close()
	_, port, err := net.SplitHostPort(page.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}

	const event = `{kind: "log", app: "page", log: {level: "error", message: "%s"}}`
	posting := func(message, path, contentType string) string {
		return fmt.Sprintf(`fetch("%s%s", {method: "POST", headers: {"Content-Type": "%s"}, body: JSON.stringify(`+event+`)})
			.then(r => r.text()).catch(() => "blocked")`, sys.Bus.IngestURL, path, contentType, message)
	}
	beacon := func(message string) string {
		return fmt.Sprintf(`String(navigator.sendBeacon("%s/v1/events", JSON.stringify(`+event+`)))`, sys.Bus.IngestURL, message)
	}
	reading := func(path string) string {
		return fmt.Sprintf(`fetch("%s%s").then(r => r.text()).catch(() => "blocked")`, sys.Bus.IngestURL, path)
	}
	rebound := fmt.Sprintf(`fetch("http://rebound.example:%s/healthz").then(r => String(r.status)).catch(() => "blocked")`, e2etest.PortOf(t, sys.Bus.IngestURL))
	accepted := `{"ok":true,"accepted":1}`

	for _, tt := range []struct {
		name, host, script, want string
	}{
		{"a local page posts JSON and reads the answer", "localhost", posting("local fetch", "/v1/events", "application/json"), accepted},
		{"a local page sends a beacon", "localhost", beacon("local beacon"), "true"},
		{"a local page posts no CI result", "localhost", posting("x", "/ci-result", "text/plain"), "blocked"},
		{"a foreign page does not see that its beacon is refused", "foreign.example", beacon("foreign beacon"), "true"},
		{"a foreign page posts no text", "foreign.example", posting("foreign text", "/v1/events", "text/plain"), "blocked"},
		{"a foreign page posts no JSON, which asks first", "foreign.example", posting("foreign json", "/v1/events", "application/json"), "blocked"},
		{"a foreign page posts no CI result", "foreign.example", posting("x", "/ci-result", "text/plain"), "blocked"},
		{"a foreign page reads no metrics", "foreign.example", reading("/metrics"), "blocked"},
		{"a name rebound to this machine is refused", "rebound.example", rebound, "blocked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(browser, 20*time.Second)
			defer cancel()
			if err := chromedp.Do(ctx, chromedp.Navigate("http://"+net.JoinHostPort(tt.host, port)+"/")); err != nil {
				t.Fatal(err)
			}
			got, err := chromedp.Run(ctx, chromedp.Evaluate[string](tt.script, chromedp.EvalAwaitPromise))
			if err != nil || got != tt.want {
				t.Errorf("got %q (%v), want %q", got, err, tt.want)
			}
		})
	}

	// Only the accepted events are stored.
	want := []string{"local fetch", "local beacon"}
	var text string
	ok := harness.Poll(t.Context(), 20*time.Second, func() bool {
		text = sys.Observe(t, map[string]any{"what": "logs", "app": "page"}).First
		for _, message := range want {
			if !strings.Contains(text, `"`+message+`"`) {
				return false
			}
		}
		return true
	})
	if !ok || strings.Contains(text, "foreign") {
		t.Errorf("got %s, want %q and nothing of a foreign page", text, want)
	}
	if text := sys.Observe(t, map[string]any{"what": "ci"}).First; text != `{"what":"ci","ci":[]}` {
		t.Errorf("a page posted a CI result: %s, want \"{\\\"what\\\":\\\"ci\\\",\\\"ci\\\":[]}\"", text)
	}
}
