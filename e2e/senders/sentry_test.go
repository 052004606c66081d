package senders

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
	"github.com/tocsin-bus/tocsin/e2e/harness/chromium"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// dsn returns the DSN of docs/senders/sentry.md.
func dsn(t *testing.T, sys *e2etest.System) string {
	t.Helper()
	return fmt.Sprintf("http://tocsin@127.0.0.1:%s/1", e2etest.PortOf(t, sys.Bus.IngestURL))
}

// until waits for events of a kind, and returns all of them.
func until(t *testing.T, sys *e2etest.System, what string, enough func([]telemetry.Event) bool) []telemetry.Event {
	t.Helper()
	var all []telemetry.Event
	if !harness.Poll(t.Context(), 20*time.Second, func() bool { all = stored(t, sys, what); return enough(all) }) {
		delivered, err := json.Marshal(all)
		t.Fatalf("timed out waiting for %s: got %s, error %v\n%s", what, delivered, err, sys.Bus.Log)
	}
	return all
}

// deliveredByKey waits for n alerts, and returns them by key.
func deliveredByKey(t *testing.T, sys *e2etest.System, n int) map[string]alert.Alert {
	t.Helper()
	all := map[string]alert.Alert{}
	for _, a := range sys.TakeAlerts(t, n) {
		all[a.DedupKey] = a
	}
	return all
}

// TestSentryForNode runs @sentry/node, which is configured by its DSN only.
func TestSentryForNode(t *testing.T) {
	t.Parallel()
	dir := e2etest.NodeModules(t, "sentry")
	e2etest.NeedNode(t, 20)
	sys := e2etest.Start(t)
	node := exec.CommandContext(t.Context(), "node", "shop.mjs")
	node.Dir = dir
	node.Env = append(os.Environ(), "SENTRY_DSN="+dsn(t, sys))
	if out, err := node.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("node shop.mjs: %v, want no error and no output, got\n%s", err, out)
	}
	alerts := deliveredByKey(t, sys, 5)
	if got := strings.Join(titles(alerts, alert.Errors), "\n"); !strings.Contains(got, "TypeError: the card could not be read") ||
		!strings.Contains(got, "order A-<n> was lost") || !strings.Contains(got, "Check-in nightly-report: error") {
		t.Errorf("errors:\n%s\nwant \"TypeError: the card could not be read\", \"order A-<n> was lost\" and \"Check-in nightly-report: error\" among them", got)
	}
	if failed := alerts["POST:/api/stock/:id:500"]; failed.App != "checkout" {
		t.Errorf("got %+v, want App \"checkout\"", failed)
	}
	if refused := alerts["GET:/stock/:id:0"]; refused.App != "checkout" || !strings.Contains(refused.Detail, "ECONNREFUSED") {
		t.Errorf("got %+v, want App \"checkout\" and \"ECONNREFUSED\" in Detail", refused)
	}
	if len(alerts) != 5 {
		t.Errorf("%d alerts: %q, want 5", len(alerts), slices.Sorted(maps.Keys(alerts)))
	}
	// One request on both sides, and one that was refused. The breadcrumb is about the
	// first as well, and is not another.
	if requests := stored(t, sys, "network"); len(requests) != 3 {
		t.Errorf("%d requests, want 3", len(requests))
	}
	thrown := false
	for _, e := range stored(t, sys, "logs") {
		if e.Log.Message != "TypeError: the card could not be read" {
			continue
		}
		thrown = true
		if !strings.HasPrefix(e.Log.Stack, "    at pay (") || !strings.Contains(e.Log.Stack, "\nCaused by: SyntaxError: ") || !strings.Contains(e.Log.Source, "shop.mjs:") {
			t.Errorf("stack, want Stack that begins with \"    at pay (\", \"\\nCaused by: SyntaxError: \" in Stack and \"shop.mjs:\" in Source\n%s\nsource %s", e.Log.Stack, e.Log.Source)
		}
		if details, err := json.Marshal(e.Log.Args); err != nil || !strings.Contains(string(details), "put a kettle into the cart") || strings.Contains(string(details), "ada@example.com") {
			t.Errorf("got %s %v, want \"put a kettle into the cart\" in it and no \"ada@example.com\" in it", details, err)
		}
	}
	if !thrown {
		t.Error("the logs lack the exception, want it there")
	}
}

// TestSentryForBrowsers runs @sentry/browser on a page on which a request and then a
// script fail, in both formats of its spans.
func TestSentryForBrowsers(t *testing.T) {
	t.Parallel()
	dir := e2etest.NodeModules(t, "sentry")
	s := chromium.NewSite(t)
	bundle := filepath.Join(t.TempDir(), "page.js")
	build := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules", ".bin", "esbuild"), "page.mjs", "--bundle", "--format=iife", "--outfile="+bundle, "--log-level=error")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("bundle the page: %v\n%s", err, out)
	}
	script, err := os.ReadFile(bundle)
	e2etest.NoError(t, err)
	for _, lifecycle := range []string{"stream", "static"} {
		t.Run(lifecycle, func(t *testing.T) {
			sys := e2etest.Start(t)
			s.SetPage("/cart", fmt.Sprintf(`<h1>A shop</h1><button id="pay">Pay</button><script>SENTRY_DSN = %q; SENTRY_LIFECYCLE = %q</script><script>%s</script>`,
				dsn(t, sys), lifecycle, script))
			tab := s.Open(t, "/cart?item=1")
			tab.Do(t, chromedp.Click(chromedp.CSS("#pay")))
			alerts := deliveredByKey(t, sys, 2)
			// Requests that the SDK sends when the page ends have the page of its load.
			until(t, sys, "actions", func(all []telemetry.Event) bool {
				return slices.ContainsFunc(all, func(e telemetry.Event) bool { return e.Action.Type == telemetry.ActionNavigate })
			})
			tab.Close()

			vitals := until(t, sys, "vitals", func(all []telemetry.Event) bool {
				return slices.ContainsFunc(all, func(e telemetry.Event) bool { return e.Vitals.FCP != nil })
			})
			for _, e := range vitals {
				if e.App != "web" || e.URL != s.LocalURL+"/cart?item=1" {
					t.Errorf("vitals %+v of %s on %q, want App \"web\" and URL %v", e.Vitals, e.App, e.URL, s.LocalURL+"/cart?item=1")
				}
			}
			if got := titles(alerts, alert.Errors); len(got) != 1 || !strings.Contains(got[0], "RangeError: no such card") {
				t.Errorf("errors: %q, want one with \"RangeError: no such card\"", got)
			}
			if failed := alerts["POST:/api/broken:500"]; len(alerts) != 2 || failed.App != "web" || failed.URL != s.LocalURL+"/api/broken?card=1" {
				t.Errorf("%d alerts: %q, %+v, want 2, with app web and URL %s", len(alerts), slices.Sorted(maps.Keys(alerts)), failed, s.LocalURL+"/api/broken?card=1")
			}
			// A breadcrumb and a span are about the same request.
			requests := slices.DeleteFunc(stored(t, sys, "network"), func(e telemetry.Event) bool { return e.Network.Status != http.StatusInternalServerError })
			if len(requests) != 1 || requests[0].URL != s.LocalURL+"/cart?item=1" {
				t.Errorf("%d failed requests: %+v, want one, of %s", len(requests), requests, s.LocalURL+"/cart?item=1")
			}
			clicks := 0
			for _, e := range stored(t, sys, "actions") {
				if e.Action.Type == telemetry.ActionClick && strings.HasSuffix(e.Action.Target, "button#pay") {
					clicks++
				}
			}
			if clicks != 1 {
				t.Errorf("%d clicks, want 1", clicks)
			}
		})
	}
}

// TestSentryForGo runs sentry-go, with HTTP instrumented on both sides.
func TestSentryForGo(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	client, err := sentry.NewClient(sentry.ClientOptions{
		Dsn: dsn(t, sys), Release: "stock@0.9.0", Environment: "test", EnableTracing: true, TracesSampleRate: 1, AttachStacktrace: true,
	})
	e2etest.NoError(t, err)
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
	request(task.Context(), t, server.URL+"/stock/7?colour=red")
	task.Finish()
	hub.CaptureMessage("restocked")
	server.Close() // its transaction ends after its answer, and only then is it flushed
	if !hub.Flush(10 * time.Second) {
		t.Error("Flush timed out, want everything sent")
	}

	alerts := deliveredByKey(t, sys, 2)
	if got := titles(alerts, alert.Errors); len(got) != 1 || !strings.Contains(got[0], "count the stock: the shelf is gone") {
		t.Errorf("errors: %q, want one with \"count the stock: the shelf is gone\"", got)
	}
	if failed := alerts["GET:/stock/:id:503"]; len(alerts) != 2 || failed.App != "stock" || failed.Occurrences() != 2 {
		t.Errorf("%d alerts: %q, %+v, want 2, with app stock and 2 occurrences", len(alerts), slices.Sorted(maps.Keys(alerts)), failed) // by both sides
	}
	for _, e := range stored(t, sys, "logs") {
		if e.Log.Level == telemetry.LevelError && (!strings.Contains(e.Log.Stack, "sentry_test.go:") || !strings.Contains(e.Log.Stack, "\nCaused by: ")) {
			t.Errorf("got stack\n%s\nwant sentry_test.go: and Caused by: in it", e.Log.Stack)
		}
	}
}

// TestSentryWithAToken checks that the key of the DSN is the token.
func TestSentryWithAToken(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t, "--token=s3cret")
	sys := &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "e2e")}
	for _, key := range []string{"tocsin", "s3cret"} {
		client, err := sentry.NewClient(sentry.ClientOptions{Dsn: strings.Replace(dsn(t, sys), "tocsin", key, 1), Release: "stock@0.9.0"})
		e2etest.NoError(t, err)
		client.CaptureException(errors.New("with the key "+key), nil, sentry.NewScope())
		if !client.Flush(10 * time.Second) {
			t.Errorf("%s: Flush timed out, want everything sent", key)
		}
	}
	if a := sys.TakeAlerts(t, 1); len(a) != 1 || !strings.Contains(a[0].Detail, "with the key s3cret") {
		t.Errorf("alerts %+v, want one with \"with the key s3cret\" in Detail", a)
	}
	if all := stored(t, sys, "logs"); len(all) != 1 {
		t.Errorf("%d events are stored, want 1", len(all))
	}
}

// request makes a request that the SDK instruments.
func request(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	e2etest.NoError(t, err)
	resp, err := (&http.Client{Transport: sentryhttpclient.NewSentryRoundTripper(nil)}).Do(req)
	e2etest.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	e2etest.NoError(t, errors.Join(err, resp.Body.Close()))
}
