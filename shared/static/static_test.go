package static_test

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/static"
)

func ask(t *testing.T, f *static.File, method string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "/file", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
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

func TestFile(t *testing.T) {
	source := strings.Repeat("/* a file */", 100)
	f := static.New("text/plain", []byte(source))
	tag := ask(t, f, "GET").Header().Get("Etag")
	zipped := ask(t, f, "GET", "Accept-Encoding", "gzip").Header().Get("Etag")
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
		{"known is nothing", "GET", "", source, 200, []string{"If-None-Match", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, f, tt.method, tt.header...)
			if a.Code != tt.status || a.Header().Get("Content-Encoding") != tt.encoding || body(t, a) != tt.body {
				t.Errorf("%d %v", a.Code, a.Header())
			}
			if a.Header().Get("Vary") != "Accept-Encoding" || a.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%v", a.Header())
			}
			if got := a.Header().Get("Content-Type"); tt.status == 200 && got != "text/plain" {
				t.Errorf("Content-Type is %q", got)
			}
		})
	}
}

// TestSmall: what gets no smaller is not compressed.
func TestSmall(t *testing.T) {
	f := static.New("text/plain", []byte("a"))
	a := ask(t, f, "GET", "Accept-Encoding", "gzip", "If-None-Match", "")
	if a.Code != 200 || a.Header().Get("Content-Encoding") != "" || a.Header().Get("Vary") != "" || a.Body.String() != "a" {
		t.Errorf("%d %v %s", a.Code, a.Header(), a.Body)
	}
}
