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
	const immutable, revalidated = "public, max-age=31536000, immutable", "no-cache"
	for path, want := range map[string]struct{ contentType, cacheControl string }{
		"/":                      {"text/html; charset=utf-8", revalidated},
		"/assets/index-abc.js":   {"text/javascript; charset=utf-8", immutable},
		"/assets/index-abc.css":  {"text/css; charset=utf-8", immutable},
		"/assets/font-abc.woff2": {"font/woff2", immutable},
		"/icon.svg":              {"image/svg+xml", revalidated},
	} {
		w := httptest.NewRecorder()
		p.Find(path).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s: status = %d, want 200", path, w.Code)
		}
		for name, value := range map[string]string{"Content-Type": want.contentType, "Cache-Control": want.cacheControl, "X-Content-Type-Options": "nosniff"} {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %s = %q, want %q", path, name, got, value)
			}
		}
	}
	for _, path := range []string{"/README.md", "/.gitignore", "/index.html", "/assets/", "/assets/../icon.svg", "/nothing"} {
		if p.Find(path) != nil {
			t.Errorf("Find(%q) has a handler, want nil", path)
		}
	}
	if !p.Built() {
		t.Error("Built = false, want true")
	}
}

// TestPlaceholder: a binary without the page serves an explanation of how to get it, without
// scripts and styles, which the content security policy forbids.
func TestPlaceholder(t *testing.T) {
	p, err := newPage(fstest.MapFS{"README.md": {Data: []byte("not served")}})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	p.Find("/").ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	text := w.Body.String()
	if p.Built() {
		t.Error("Built = true, want false")
	}
	if w.Code != http.StatusOK {
		t.Errorf("status = %d, want 200", w.Code)
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control = %q, want no-store", got)
	}
	for part, want := range map[string]bool{"make build": true, "Node": true, "<script": false, "style": false} {
		if got := strings.Contains(text, part); got != want {
			t.Errorf("page has %q = %t, want %t: %s", part, got, want, text)
		}
	}
}

// TestEmbedded: this binary has a page or the placeholder.
func TestEmbedded(t *testing.T) {
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if p.Find("/") == nil {
		t.Error("Find(/) = nil, want a handler")
	}
}
