package chromium

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// Site is a web site for tests. Its origin differs from ingest's in host and port.
type Site struct {
	*httptest.Server
	// LocalURL has the host localhost, so that 127.0.0.1 is another site to its pages.
	LocalURL string
	browser  context.Context
	// pages has the HTML and policies the Content-Security-Policy, by path.
	mu              sync.Mutex
	pages, policies map[string]string
}

// SetPage serves HTML at a path.
func (s *Site) SetPage(path, html string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = html
}

// SetPolicy serves the page at a path with a Content-Security-Policy.
func (s *Site) SetPolicy(path, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policies[path] = value
}

// NewSite starts a site and a browser to open its pages.
func NewSite(t *testing.T) *Site {
	t.Helper()
	s := &Site{browser: Start(t), pages: map[string]string{}, policies: map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	s.LocalURL = "http://localhost:" + e2etest.PortOf(t, s.URL)
	return s
}

// ServeHTTP serves the pages and three API paths: /api/good, /api/broken with status 500,
// and /api/slow, which never answers.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/api/good":
		_, _ = w.Write([]byte(`{"good":true}`)) // the browser reports a short page
		return
	case "/api/broken":
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	case "/api/slow":
		<-r.Context().Done() // until the page cancels it
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
	_, _ = w.Write([]byte("<!doctype html><title>a page</title>" + page)) // the browser reports a short page
}

// NeedScript skips the test if the binary was built without the browser script.
func NeedScript(t *testing.T, ingestURL string) {
	t.Helper()
	if a := e2etest.Get(t, ingestURL+"/tocsin.js"); a.Status == http.StatusServiceUnavailable {
		t.Skip(strings.TrimSpace(a.Body))
	}
}

// Tab is a browser tab.
type Tab struct {
	Ctx context.Context
	// Close closes the tab, as its user would.
	Close func()
}

// NewTab opens an empty tab.
func (s *Site) NewTab(t *testing.T) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(s.browser)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	return &Tab{ctx, cancel}
}

// Open opens a page in a new tab.
func (s *Site) Open(t *testing.T, path string) *Tab {
	t.Helper()
	p := s.NewTab(t)
	p.Do(t, chromedp.Navigate(s.LocalURL+path))
	return p
}

// Do runs steps in the tab, and waits for the load event if they load a page.
func (p *Tab) Do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.Ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// Eval runs JavaScript in the tab, awaits a promise, and decodes the result.
func Eval[T any](t *testing.T, p *Tab, script string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.Ctx, 30*time.Second)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%v\n%s", err, script)
	}
	return got
}
