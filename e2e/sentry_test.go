package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/getsentry/sentry-go"
	sentryhttp "github.com/getsentry/sentry-go/http"
	sentryhttpclient "github.com/getsentry/sentry-go/httpclient"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// dsn is where an SDK of Sentry sends to, as the README has it.
func (w *world) dsn(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("http://tocsin@127.0.0.1:%s/1", portOf(t, w.bus.IngestURL))
}

// until waits for events of a kind, and gives all of them.
func (w *world) until(t *testing.T, what string, enough func([]telemetry.Event) bool) []telemetry.Event {
	t.Helper()
	var all []telemetry.Event
	if !harness.Poll(t.Context(), 20*time.Second, func() bool { all = w.stored(t, what); return enough(all) }) {
		told, err := json.Marshal(all)
		t.Fatalf("%s: %s %v\n%s", what, told, err, w.bus.Log)
	}
	return all
}

// told waits for as many alerts, and gives them by key.
func (w *world) told(t *testing.T, n int) map[string]alert.Alert {
	t.Helper()
	all := map[string]alert.Alert{}
	for _, a := range w.alerts(t, n) {
		all[a.DedupKey] = a
	}
	return all
}

// TestSentryForNode is @sentry/node, which is told nothing but its DSN.
func TestSentryForNode(t *testing.T) {
	dir := nodeModules(t, "sentry")
	skipOldNode(t, 20)
	w := start(t)
	node := exec.CommandContext(t.Context(), "node", "shop.mjs")
	node.Dir = dir
	node.Env = append(os.Environ(), "SENTRY_DSN="+w.dsn(t))
	if out, err := node.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	alerts := w.told(t, 5)
	if got := strings.Join(titles(alerts, alert.Errors), "\n"); !strings.Contains(got, "TypeError: the card could not be read") ||
		!strings.Contains(got, "order A-<n> was lost") || !strings.Contains(got, "Check-in nightly-report: error") {
		t.Errorf("errors:\n%s", got)
	}
	if failed := alerts["POST:/api/stock/:id:500"]; failed.App != "checkout" {
		t.Errorf("%+v", failed)
	}
	if refused := alerts["GET:/stock/:id:0"]; refused.App != "checkout" || !strings.Contains(refused.Detail, "ECONNREFUSED") {
		t.Errorf("%+v", refused)
	}
	if len(alerts) != 5 {
		t.Errorf("%d alerts: %q", len(alerts), slices.Sorted(maps.Keys(alerts)))
	}
	// Both sides of one request, and one that was refused. The breadcrumb tells of
	// the first as well, and is not another.
	if requests := w.stored(t, "network"); len(requests) != 3 {
		t.Errorf("%d requests", len(requests))
	}
	thrown := false
	for _, e := range w.stored(t, "logs") {
		if e.Log.Message != "TypeError: the card could not be read" {
			continue
		}
		thrown = true
		if !strings.HasPrefix(e.Log.Stack, "    at pay (") || !strings.Contains(e.Log.Stack, "\nCaused by: SyntaxError: ") || !strings.Contains(e.Log.Source, "shop.mjs:") {
			t.Errorf("stack\n%s\nsource %s", e.Log.Stack, e.Log.Source)
		}
		if details, err := json.Marshal(e.Log.Args); err != nil || !strings.Contains(string(details), "put a kettle into the cart") || strings.Contains(string(details), "ada@example.com") {
			t.Errorf("%s %v", details, err)
		}
	}
	if !thrown {
		t.Error("the exception is not among the logs")
	}
}

// TestSentryForBrowsers is @sentry/browser on a page on which a request and then a
// script fail, in both of the ways in which it sends its spans.
func TestSentryForBrowsers(t *testing.T) {
	dir := nodeModules(t, "sentry")
	s := newSite(t)
	bundle := filepath.Join(t.TempDir(), "page.js")
	build := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules", ".bin", "esbuild"), "page.mjs", "--bundle", "--format=iife", "--outfile="+bundle, "--log-level=error")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	script, err := os.ReadFile(bundle)
	must(t, err)
	for _, lifecycle := range []string{"stream", "static"} {
		t.Run(lifecycle, func(t *testing.T) {
			w := start(t)
			s.page("/cart", fmt.Sprintf(`<h1>A shop</h1><button id="pay">Pay</button><script>SENTRY_DSN = %q; SENTRY_LIFECYCLE = %q</script><script>%s</script>`,
				w.dsn(t), lifecycle, script))
			tab := s.open(t, "/cart?item=1")
			tab.do(t, chromedp.Click(chromedp.CSS("#pay")))
			alerts := w.told(t, 2)
			// What is told on leaving the page names it by the span of its load.
			w.until(t, "actions", func(all []telemetry.Event) bool {
				return slices.ContainsFunc(all, func(e telemetry.Event) bool { return e.Action.Type == telemetry.ActionNavigate })
			})
			tab.close()

			vitals := w.until(t, "vitals", func(all []telemetry.Event) bool {
				return slices.ContainsFunc(all, func(e telemetry.Event) bool { return e.Vitals.FCP != nil })
			})
			for _, e := range vitals {
				if e.App != "web" || e.URL != s.url+"/cart?item=1" {
					t.Errorf("vitals %+v of %s on %q", e.Vitals, e.App, e.URL)
				}
			}
			if got := titles(alerts, alert.Errors); len(got) != 1 || !strings.Contains(got[0], "RangeError: no such card") {
				t.Errorf("errors: %q", got)
			}
			if failed := alerts["POST:/api/broken:500"]; len(alerts) != 2 || failed.App != "web" || failed.URL != s.url+"/api/broken?card=1" {
				t.Errorf("%d alerts: %q, %+v", len(alerts), slices.Sorted(maps.Keys(alerts)), failed)
			}
			// A breadcrumb and a span tell of the request; it was one.
			requests := slices.DeleteFunc(w.stored(t, "network"), func(e telemetry.Event) bool { return e.Network.Status != http.StatusInternalServerError })
			if len(requests) != 1 || requests[0].URL != s.url+"/cart?item=1" {
				t.Errorf("%d failed requests, %+v", len(requests), requests)
			}
			clicks := 0
			for _, e := range w.stored(t, "actions") {
				if e.Action.Type == telemetry.ActionClick && strings.HasSuffix(e.Action.Target, "button#pay") {
					clicks++
				}
			}
			if clicks != 1 {
				t.Errorf("%d clicks", clicks)
			}
		})
	}
}

// TestSentryForGo is sentry-go, with HTTP instrumented on both sides.
func TestSentryForGo(t *testing.T) {
	w := start(t)
	client, err := sentry.NewClient(sentry.ClientOptions{
		Dsn: w.dsn(t), Release: "stock@0.9.0", Environment: "test", EnableTracing: true, TracesSampleRate: 1, AttachStacktrace: true,
	})
	must(t, err)
	hub := sentry.NewHub(client, sentry.NewScope())
	ctx := sentry.SetHubOnContext(t.Context(), hub)

	shelves := sentryhttp.New(sentryhttp.Options{}).HandleFunc(func(rw http.ResponseWriter, r *http.Request) {
		hub := sentry.GetHubFromContext(r.Context())
		hub.AddBreadcrumb(&sentry.Breadcrumb{Category: "db", Message: "looked for a kettle", Level: sentry.LevelInfo}, nil)
		hub.CaptureException(fmt.Errorf("count the stock: %w", errors.New("the shelf is gone")))
		rw.WriteHeader(http.StatusServiceUnavailable)
	})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		shelves(rw, r.WithContext(sentry.SetHubOnContext(r.Context(), hub.Clone())))
	}))
	defer server.Close()
	task := sentry.StartTransaction(ctx, "restock", sentry.WithOpName("task"))
	asks(task.Context(), t, server.URL+"/stock/7?colour=red")
	task.Finish()
	hub.CaptureMessage("restocked")
	server.Close() // its transaction ends after its answer: only then is it among what is flushed
	if !hub.Flush(10 * time.Second) {
		t.Error("not all was sent")
	}

	alerts := w.told(t, 2)
	if got := titles(alerts, alert.Errors); len(got) != 1 || !strings.Contains(got[0], "count the stock: the shelf is gone") {
		t.Errorf("errors: %q", got)
	}
	if failed := alerts["GET:/stock/:id:503"]; len(alerts) != 2 || failed.App != "stock" || failed.Occurrences() != 2 {
		t.Errorf("%d alerts: %q, %+v", len(alerts), slices.Sorted(maps.Keys(alerts)), failed) // told by both sides
	}
	for _, e := range w.stored(t, "logs") {
		if e.Log.Level == telemetry.LevelError && (!strings.Contains(e.Log.Stack, "sentry_test.go:") || !strings.Contains(e.Log.Stack, "\nCaused by: ")) {
			t.Errorf("stack\n%s", e.Log.Stack)
		}
	}
}

// TestSentryWithAToken: the key of the DSN is the token.
func TestSentryWithAToken(t *testing.T) {
	b, err := upWith(t, "--token=s3cret")
	must(t, err)
	w := &world{bus: b, agent: join(t, b, "e2e")}
	for _, key := range []string{"tocsin", "s3cret"} {
		client, err := sentry.NewClient(sentry.ClientOptions{Dsn: strings.Replace(w.dsn(t), "tocsin", key, 1), Release: "stock@0.9.0"})
		must(t, err)
		client.CaptureException(errors.New("with the key "+key), nil, sentry.NewScope())
		if !client.Flush(10 * time.Second) {
			t.Errorf("%s: not all was sent", key)
		}
	}
	if a := w.alerts(t, 1); len(a) != 1 || !strings.Contains(a[0].Detail, "with the key s3cret") {
		t.Errorf("%+v", a)
	}
	if all := w.stored(t, "logs"); len(all) != 1 {
		t.Errorf("%d events are stored", len(all))
	}
}

// asks makes a request that the SDK knows of.
func asks(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	must(t, err)
	resp, err := (&http.Client{Transport: sentryhttpclient.NewSentryRoundTripper(nil)}).Do(req)
	must(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	must(t, errors.Join(err, resp.Body.Close()))
}
