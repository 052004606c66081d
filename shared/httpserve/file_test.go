package httpserve_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// requestFile returns the answer of a file. Header has names and values in turn.
func requestFile(t *testing.T, f *httpserve.File, method string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "/file", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// fileAnswer has the parts of an answer that the tests compare.
type fileAnswer struct {
	Status                            int
	Encoding, MediaType, Vary, Option string
	Body                              string
}

// readAnswer returns the parts of an answer, with its body decompressed.
func readAnswer(t *testing.T, w *httptest.ResponseRecorder) fileAnswer {
	t.Helper()
	h := w.Header()
	a := fileAnswer{Status: w.Code, Encoding: h.Get("Content-Encoding"), MediaType: h.Get("Content-Type"), Vary: h.Get("Vary"), Option: h.Get("X-Content-Type-Options")}
	var r io.Reader = w.Body
	if a.Encoding == "gzip" && w.Body.Len() > 0 {
		var err error
		if r, err = gzip.NewReader(w.Body); err != nil {
			t.Fatal(err)
		}
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	a.Body = string(data)
	return a
}

func TestFile(t *testing.T) {
	source := strings.Repeat("/* a file */", 100)
	f := httpserve.NewFile("text/plain", []byte(source))
	tag := requestFile(t, f, http.MethodGet).Header().Get("Etag")
	zipped := requestFile(t, f, http.MethodGet, "Accept-Encoding", "gzip").Header().Get("Etag")
	if tag == zipped || !strings.HasPrefix(tag, `"`) {
		t.Fatalf("ETag of the plain file = %s and of the compressed one = %s, want two quoted values", tag, zipped)
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
		{"cached", "GET", "", "", 304, []string{"If-None-Match", tag}},
		{"cached in another encoding", "GET", "", "", 304, []string{"If-None-Match", `"x", W/` + zipped}},
		{"any is cached", "HEAD", "", "", 304, []string{"If-None-Match", "*"}},
		{"another file is cached", "GET", "", source, 200, []string{"If-None-Match", `"x"`}},
		{"nothing is cached", "GET", "", source, 200, []string{"If-None-Match", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := fileAnswer{Status: tt.status, Encoding: tt.encoding, Vary: "Accept-Encoding", Option: "nosniff", Body: tt.body}
			if tt.status == http.StatusOK {
				want.MediaType = "text/plain"
			}
			got := readAnswer(t, requestFile(t, f, tt.method, tt.header...))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFileSmall: a file that compression does not make smaller is sent as it is.
func TestFileSmall(t *testing.T) {
	f := httpserve.NewFile("text/plain", []byte("a"))
	got := readAnswer(t, requestFile(t, f, http.MethodGet, "Accept-Encoding", "gzip", "If-None-Match", ""))
	want := fileAnswer{Status: http.StatusOK, MediaType: "text/plain", Option: "nosniff", Body: "a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}
