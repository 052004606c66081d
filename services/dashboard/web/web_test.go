package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func TestPage(t *testing.T) {
	p, err := newPage(fstest.MapFS{
		"index.html":            {Data: []byte("<!doctype html><script src=/assets/index-abc.js></script>")},
		"assets/index-abc.js":   {Data: []byte(strings.Repeat("render();", 100))},
		"assets/index-abc.css":  {Data: []byte("a{}")},
		"assets/font-abc.woff2": {Data: []byte("font")},
		"icon.svg":              {Data: []byte("<svg/>")},
		"README.md":             {Data: []byte("not served")},
		".gitignore":            {Data: []byte("*")},
	})
	if err != nil {
		t.Fatal(err)
	}
	const always, again = "public, max-age=31536000, immutable", "no-cache"
	for path, want := range map[string]struct{ media, kept string }{
		"/":                      {"text/html; charset=utf-8", again},
		"/assets/index-abc.js":   {"text/javascript; charset=utf-8", always},
		"/assets/index-abc.css":  {"text/css; charset=utf-8", always},
		"/assets/font-abc.woff2": {"font/woff2", always},
		"/icon.svg":              {"image/svg+xml", again},
	} {
		w := httptest.NewRecorder()
		p.Find(path).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if h := w.Header(); w.Code != 200 || h.Get("Content-Type") != want.media || h.Get("Cache-Control") != want.kept || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
	}
	for _, path := range []string{"/README.md", "/.gitignore", "/index.html", "/assets/", "/assets/../icon.svg", "/nothing"} {
		if p.Find(path) != nil {
			t.Errorf("%s is served", path)
		}
	}
	if !p.Built() {
		t.Error("the page is there and not found")
	}
}

// TestWithout: a binary that was built without Node says how to get the page, and
// needs nothing for it that the policy of a page forbids.
func TestWithout(t *testing.T) {
	p, err := newPage(fstest.MapFS{"README.md": {Data: []byte("not served")}})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	p.Find("/").ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	text := w.Body.String()
	if p.Built() || w.Code != 200 || !strings.Contains(text, "make build") || !strings.Contains(text, "Node") || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %s", w.Code, w.Header(), text)
	}
	if strings.Contains(text, "<script") || strings.Contains(text, "style") {
		t.Error("it has a script or a style")
	}
}

// TestBuilt: what is in this binary can be served, built or not.
func TestBuilt(t *testing.T) {
	p, err := New()
	if err != nil || p.Find("/") == nil {
		t.Fatal(err)
	}
}
