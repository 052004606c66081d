package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/chromium"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

const (
	// pageAlerts is the maximum of alerts in the dashboard's page.
	pageAlerts = 10_000
	// pageStarts is the number of times that the page is opened.
	pageStarts = 10
	// pageRate is the number of alerts a second during scrolling.
	pageRate = 50
)

// page measures the dashboard's page in a real browser: when alerts are visible, the memory
// of the maximum of alerts, and how smoothly they scroll while more arrive.
func page(ctx context.Context, bin string, _ int) (all []harness.Figure, err error) {
	dir, err := os.MkdirTemp("", "tocsin-bench-page-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	profile, err := os.MkdirTemp("", "tocsin-bench-browser-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(profile)) }()
	browser, stop, err := chromium.Launch(ctx, profile)
	if errors.Is(err, chromium.ErrNone) {
		return []harness.Figure{{What: "the dashboard's page", Measured: "not measured: " + err.Error()}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer stop()
	b, err := harness.Up(ctx, bin, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Stop()) }()
	reason, err := noPage(ctx, b.DashboardURL)
	if err != nil {
		return nil, err
	}
	if reason != "" {
		return []harness.Figure{{What: "the dashboard's page", Measured: "not measured: " + reason}}, nil
	}
	js, done, err := asDetector(b)
	if err != nil {
		return nil, err
	}
	defer done()
	for i := range pageAlerts {
		if err := raise(js, i); err != nil {
			return nil, err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return measurePage(browser, b.DashboardURL, js)
}

// noPage returns the reason if a binary has no page to measure, or "".
func noPage(ctx context.Context, dashboard string) (reason string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, dashboard+"/", http.NoBody)
	if err != nil {
		return "", fmt.Errorf("get the page: %w", err)
	}
	a, err := harness.Do(req)
	if err != nil {
		return "", fmt.Errorf("get the page: %w", err)
	}
	if a.Status == http.StatusOK && strings.Contains(a.Body, "built without") {
		return "the binary was built without the page; make build builds it if Node is installed", nil
	}
	return "", nil
}

func measurePage(browser context.Context, url string, js jetstream.JetStream) ([]harness.Figure, error) {
	var firsts, alls []time.Duration
	for range pageStarts {
		if _, err := chromedp.Call(browser, network.ClearBrowserCache, cdp.Empty{}); err != nil {
			return nil, err
		}
		if err := chromedp.Do(browser, chromedp.Navigate("about:blank")); err != nil {
			return nil, err
		}
		if err := chromedp.Do(browser, chromedp.Navigate(url)); err != nil {
			return nil, err
		}
		// The times count from the start of the navigation, on the page's clock.
		times, err := chromedp.Run(browser, chromedp.Evaluate[[]float64](`new Promise((done, failed) => {
			setTimeout(failed, 60_000, "the page did not show all alerts within 60 s");
			let first = 0;
			const check = () => {
				if (first === 0 && document.querySelector(".rows [role=row]")) first = performance.now();
				if (document.querySelector(".foot")?.textContent.includes("of 10,000 alerts")) done([first, performance.now()]);
				else requestAnimationFrame(check);
			};
			check();
		})`, chromedp.EvalAwaitPromise))
		if err != nil {
			return nil, fmt.Errorf("open the page: %w", err)
		}
		firsts, alls = append(firsts, millis(times[0])), append(alls, millis(times[1]))
	}
	if _, err := chromedp.Call(browser, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		return nil, err
	}
	heap, err := chromedp.Call(browser, cdpruntime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		return nil, err
	}
	frames, err := scroll(browser, js)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{
		{What: "page: opened to first alerts, nothing cached", Asked: "< 1 s", Measured: harness.Quantiles(firsts)},
		{What: "page: opened to all 10,000 alerts", Measured: harness.Quantiles(alls)},
		{What: "page: JavaScript heap with 10,000 alerts", Measured: fmt.Sprintf("%.1f MB", heap.UsedSize/1e6)},
		{What: fmt.Sprintf("page: a frame while 10,000 alerts scroll and %d/s arrive", pageRate), Asked: "no stutter", Measured: harness.Quantiles(frames)},
	}, nil
}

// scroll scrolls through the list for 300 frames while alerts arrive, and returns how long
// each frame took.
func scroll(browser context.Context, js jetstream.JetStream) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(browser)
	fed := make(chan error, 1)
	go func() {
		tick := time.NewTicker(time.Second / pageRate)
		defer tick.Stop()
		for i := pageAlerts; ; i++ {
			select {
			case <-ctx.Done():
				fed <- nil
				return
			case <-tick.C:
				if err := raise(js, i); err != nil {
					fed <- err
					return
				}
			}
		}
	}()
	frames, err := chromedp.Run(browser, chromedp.Evaluate[[]float64](`(async () => {
		document.querySelector(".list-options button:nth-child(2)").click(); // each repeat in a row of its own
		const list = document.querySelector(".rows");
		const frames = [];
		let last = performance.now();
		for (let i = 0; i < 300; i++) {
			list.scrollTop += 400;
			await new Promise(done => requestAnimationFrame(done));
			const now = performance.now();
			frames.push(now - last);
			last = now;
		}
		return frames;
	})()`, chromedp.EvalAwaitPromise))
	cancel()
	if err := errors.Join(err, <-fed); err != nil {
		return nil, fmt.Errorf("scroll: %w", err)
	}
	out := make([]time.Duration, 0, len(frames))
	for _, f := range frames {
		out = append(out, millis(f))
	}
	return slices.Clip(out), nil
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// asDetector connects to a bus with the detector's key.
func asDetector(b *harness.Bus) (js jetstream.JetStream, done func(), err error) {
	auth, err := nats.NkeyOptionFromSeed(statedir.At(b.StateDir).Credential(string(bus.RoleDetector)))
	if err != nil {
		return nil, nil, fmt.Errorf("read the detector's key: %w", err)
	}
	nc, err := nats.Connect(b.NATSURL, auth, nats.CustomInboxPrefix("_INBOX_detector"))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", b.NATSURL, err)
	}
	if js, err = jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1000)); err != nil {
		nc.Close()
		return nil, nil, err
	}
	return js, nc.Close, nil
}

// raise publishes the i-th alert, of the usual size.
func raise(js jetstream.JetStream, i int) error {
	severity := alert.Severities()[i%3]
	category := alert.Categories()[i%len(alert.Categories())]
	a := alert.Alert{
		ID: "bench" + strconv.Itoa(i), Severity: severity, Category: category, App: "app" + strconv.Itoa(i%7),
		Title: "Server error: POST /api/users/" + strconv.Itoa(i%50) + " → 500", Detail: "Request failed with Internal Server Error after 12 ms, the 3rd in a minute",
		Timestamp: time.Now(), Source: alert.SourceNetwork, URL: "http://localhost:3000/cart",
		Context:  map[string]any{"method": "POST", "url": "/api/users", "status": 500, "duration_ms": i % 900},
		DedupKey: "POST:/api/users/" + strconv.Itoa(i%500) + ":500", CorrelationID: "bench" + strconv.Itoa(i),
	}
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if _, err := js.PublishMsgAsync(&nats.Msg{Subject: bus.AlertSubject(a), Data: data}); err != nil {
		return fmt.Errorf("publish an alert: %w", err)
	}
	return nil
}
