package script

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

func ask(t *testing.T, h http.Handler, method string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "/tocsin.js", http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func body(t *testing.T, a *httptest.ResponseRecorder) string {
	t.Helper()
	var from io.Reader = a.Body
	if a.Header().Get("Content-Encoding") == "gzip" {
		var err error
		if from, err = gzip.NewReader(a.Body); err != nil {
			t.Fatal(err)
		}
	}
	data, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestServe(t *testing.T) {
	const source = "/* a script */"
	h := handlerOf([]byte(source))
	for _, method := range []string{"GET", "HEAD"} {
		a := ask(t, h, method)
		if text := body(t, a); a.Code != 200 || method == "GET" && text != source {
			t.Errorf("%s: got %d %s, want 200 with the source", method, a.Code, text)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "cross-origin",
			"Access-Control-Allow-Origin": "*", "Cache-Control": "no-cache", "Content-Type": "text/javascript; charset=utf-8",
		} {
			if got := a.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", method, name, got, want)
			}
		}
	}
	tag := ask(t, h, "GET").Header().Get("Etag")
	if a := ask(t, h, "GET", "If-None-Match", tag); a.Code != 304 || a.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("got %d %v, want 304 for every origin", a.Code, a.Header())
	}
}

// TestWithout checks that a binary that was built without Node explains how to get the
// script.
func TestWithout(t *testing.T) {
	a := ask(t, handlerOf(nil), "GET")
	if text := body(t, a); a.Code != http.StatusServiceUnavailable || !strings.Contains(text, "make build") || !strings.Contains(text, "Node") {
		t.Errorf("got %d %s, want 503 with what to install", a.Code, text)
	}
}

// TestBundle checks the beginning and the size of the bundle.
func TestBundle(t *testing.T) {
	content := bundle()
	if content == nil {
		t.Skip("the bundle is not built: make script builds it, and needs Node")
	}
	const limit = 12 << 10 // bytes
	if n := len(httpserve.Gzip(content)); n >= limit {
		t.Errorf("%d bytes compressed, want fewer than %d", n, limit)
	}
	if !bytes.HasPrefix(content, []byte("/* tocsin.js")) || bytes.Contains(content, []byte("</script")) {
		t.Errorf("the script begins with %.80s, want /* tocsin.js, and no </script in it", content)
	}
}

// TestModules runs the tests of the modules that need no page, in Node.
func TestModules(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("Node is not installed")
	}
	if _, err := os.Stat("node_modules/esbuild"); err != nil {
		t.Skip("the packages are not installed: make script does it")
	}
	if out, err := exec.CommandContext(t.Context(), node, "test.mjs").CombinedOutput(); err != nil {
		t.Errorf("test.mjs: %v, want success\n%s", err, out)
	}
}
