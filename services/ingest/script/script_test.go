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
	h := serving([]byte(source))
	tag := ask(t, h, "GET").Header().Get("Etag")
	zipped := ask(t, h, "GET", "Accept-Encoding", "gzip").Header().Get("Etag")
	if tag == zipped || !strings.HasPrefix(tag, `"`) {
		t.Fatalf("tags %s and %s", tag, zipped)
	}
	for _, tt := range []struct {
		name, method, encoding, body string
		status                       int
		header                       []string
	}{
		{"plain", "GET", "", source, 200, nil},
		{"gzip", "GET", "gzip", source, 200, []string{"Accept-Encoding", "br, gzip;q=0.5"}},
		{"any encoding", "GET", "gzip", source, 200, []string{"Accept-Encoding", "*"}},
		{"gzip is refused", "GET", "", source, 200, []string{"Accept-Encoding", "deflate, gzip;q=0"}},
		{"head", "HEAD", "", "", 200, nil},
		{"known", "GET", "", "", 304, []string{"If-None-Match", tag}},
		{"known in another encoding", "GET", "", "", 304, []string{"If-None-Match", `"x", W/` + zipped}},
		{"any", "HEAD", "", "", 304, []string{"If-None-Match", "*"}},
		{"known is another", "GET", "", source, 200, []string{"If-None-Match", `"x"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, h, tt.method, tt.header...)
			if a.Code != tt.status || a.Header().Get("Content-Encoding") != tt.encoding || body(t, a) != tt.body {
				t.Errorf("%d %v", a.Code, a.Header())
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "cross-origin",
				"Access-Control-Allow-Origin": "*", "Cache-Control": "no-cache", "Vary": "Accept-Encoding",
			} {
				if got := a.Header().Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if got := a.Header().Get("Content-Type"); tt.status == 200 && got != "text/javascript; charset=utf-8" {
				t.Errorf("Content-Type is %q", got)
			}
		})
	}
}

// TestWithout: a binary that was built without Node says how to get the script.
func TestWithout(t *testing.T) {
	a := ask(t, serving(nil), "GET")
	if text := body(t, a); a.Code != http.StatusServiceUnavailable || !strings.Contains(text, "make build") || !strings.Contains(text, "Node") {
		t.Errorf("%d %s", a.Code, text)
	}
}

// TestBundle: what is in the binary is what it should be, and small.
func TestBundle(t *testing.T) {
	bundle := built()
	if bundle == nil {
		t.Skip("the bundle is not built: make script does it, where there is Node")
	}
	const limit = 12 << 10 // bytes
	if n := len(zip(bundle)); n >= limit {
		t.Errorf("%d bytes compressed, the limit is %d", n, limit)
	}
	if !bytes.HasPrefix(bundle, []byte("/* tocsin.js")) || bytes.Contains(bundle, []byte("</script")) {
		t.Errorf("it begins with %.80s", bundle)
	}
}

// TestModules runs the tests of the modules that need no page, in Node.
func TestModules(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node here")
	}
	if _, err := os.Stat("node_modules/esbuild"); err != nil {
		t.Skip("the packages are not installed: make script does it")
	}
	if out, err := exec.CommandContext(t.Context(), node, "test.mjs").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
