package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// shop is the body of a page with things to click and to submit.
const shop = `<h1>A shop</h1>
<button id="buy"><b>Buy</b></button>
<form id="order" action="/ordered" target="sink"><input name="parentElement" value="secret words"><input name="getAttribute"><button class="send">Order</button></form>
<iframe name="sink" hidden></iframe>`

// site is a web site of another port than the intake's, and of another name.
type site struct {
	*httptest.Server
	// url names it localhost: to its pages, 127.0.0.1 is a foreign site.
	url     string
	browser context.Context
	// pages are the HTML, policies the Content-Security-Policy, by path. The browser
	// asks for what it likes while a test adds to them.
	mu              sync.Mutex
	pages, policies map[string]string
}

// page puts a page at a path.
func (s *site) page(path, html string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = html
}

// policy is what the page at a path is served with.
func (s *site) policy(path, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policies[path] = value
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{browser: startBrowser(t), pages: map[string]string{}, policies: map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	s.url = "http://localhost:" + portOf(t, s.URL)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/api/good":
		_, _ = w.Write([]byte(`{"good":true}`)) // the browser tells
		return
	case "/api/broken":
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	case "/api/slow":
		<-r.Context().Done() // until the page gives up
		return
	}
	s.mu.Lock()
	page, ok := s.pages[r.URL.Path]
	policy := s.policies[r.URL.Path]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if policy != "" {
		w.Header().Set("Content-Security-Policy", policy)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte("<!doctype html><title>a page</title>" + page)) // the browser tells
}

// tag is the line that a page's author writes.
func tag(intake, app string) string {
	return fmt.Sprintf(`<script src="%s/tocsin.js" data-app="%s"></script>`, intake, app)
}

// upWith runs a bus on a fresh state directory.
func upWith(t *testing.T, args ...string) (*harness.Bus, error) {
	t.Helper()
	return upIn(t, t.TempDir(), args...)
}

// upIn runs a bus, which the test may stop.
func upIn(t *testing.T, dir string, args ...string) (*harness.Bus, error) {
	t.Helper()
	b, err := harness.Up(t.Context(), binary, dir, args...)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("tocsin up: %v\n%s", err, b.Log)
		}
		noRace(t, b.Log)
	})
	return b, nil
}

// needsScript skips the test when the binary has no page script.
func needsScript(t *testing.T, intake string) {
	t.Helper()
	if a := get(t, intake+"/tocsin.js"); a.Status == http.StatusServiceUnavailable {
		t.Skip(strings.TrimSpace(a.Body))
	}
}

// tab is a page in the browser.
type tab struct {
	ctx context.Context
	// close does what a person does who closes the tab.
	close func()
}

// tab opens an empty tab.
func (s *site) tab(t *testing.T) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(s.browser)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	return &tab{ctx, cancel}
}

// open opens a page in a tab of its own.
func (s *site) open(t *testing.T, path string) *tab {
	t.Helper()
	p := s.tab(t)
	p.do(t, chromedp.Navigate(s.url+path))
	return p
}

// do does what a person does, and waits for the load event where that loads a
// page.
func (p *tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// eval runs JavaScript in the page, waits for what it promises, and decodes it.
func eval[T any](t *testing.T, p *tab, script string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%v\n%s", err, script)
	}
	return got
}

// witness is a world that keeps the alerts that come while it looks.
type witness struct {
	*world
	raised []alert.Alert
}

// stored waits until what was stored of an app pleases.
func (w *witness) stored(t *testing.T, what, app string, ok func([]telemetry.Event) bool) []telemetry.Event {
	t.Helper()
	var events []telemetry.Event
	if !harness.Poll(t.Context(), 20*time.Second, func() bool {
		events = w.look(t, what, app)
		return ok(events)
	}) {
		t.Fatalf("%s of %s: %s\n%s", what, app, inJSON(events), w.bus.Log)
	}
	return events
}

// look is what is stored of an app now.
func (w *witness) look(t *testing.T, what, app string) []telemetry.Event {
	t.Helper()
	entries, raised, err := w.agent.ObserveAll(t.Context(), what, map[string]any{"app": app, "limit": 200})
	w.raised = append(w.raised, raised...)
	if err != nil {
		return nil // a busy machine: the detector did not answer in time
	}
	var events []telemetry.Event
	for _, entry := range entries {
		var e telemetry.Event
		if err := json.Unmarshal(entry, &e); err != nil {
			t.Fatalf("%v: %s", err, entry)
		}
		events = append(events, e)
	}
	return events
}

// all waits until there are alerts of all these categories.
func (w *witness) all(t *testing.T, categories ...alert.Category) {
	t.Helper()
	missing := func() (left []alert.Category) {
		for _, c := range categories {
			if !slices.ContainsFunc(w.raised, func(a alert.Alert) bool { return a.Category == c }) {
				left = append(left, c)
			}
		}
		return left
	}
	if !harness.Poll(t.Context(), 20*time.Second, func() bool {
		w.raised = append(w.raised, w.observe(t, nil).Alerts...)
		return len(missing()) == 0
	}) {
		t.Errorf("no alerts of %v among %s", missing(), inJSON(w.raised))
	}
}

func inJSON(v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	const most = 8000
	return string(text[:min(len(text), most)])
}

// logged finds the first log line whose message holds a text.
func logged(events []telemetry.Event, text string) *telemetry.Event {
	for i := range events {
		if events[i].Log != nil && strings.Contains(events[i].Log.Message, text) {
			return &events[i]
		}
	}
	return nil
}

// asked finds the first request whose URL ends with a text.
func asked(events []telemetry.Event, end string) *telemetry.Event {
	for i := range events {
		if events[i].Network != nil && strings.HasSuffix(events[i].Network.URL, end) {
			return &events[i]
		}
	}
	return nil
}
