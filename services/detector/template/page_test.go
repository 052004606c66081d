package template_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/services/detector/template"
)

func TestPage(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"path of a URL", "http://localhost:3000/cart", "/cart"},
		{"query and fragment", "http://localhost:3000/cart?x=1#top", "/cart"},
		{"only a path", "/cart?x=/1", "/cart"},
		{"no path", "http://localhost:3000", "/"},
		{"no path but a query", "http://localhost:3000?x", "/"},
		{"user and port", "https://u:p@shop.example:8443/a", "/a"},
		{"no scheme", "//cdn.example/a/1", "/a/:id"},
		{"host and port", "localhost:3000/a/1", "/a/:id"},
		{"relative", "cart/12", "cart/:id"},
		{"number", "/users/42/orders/7", "/users/:id/orders/:id"},
		{"uuid", "/o/8f14e45f-ceea-467f-a8f2-9b1d1c2f4c11", "/o/:id"},
		{"object id", "/o/507f1f77bcf86cd799439011/x", "/o/:id/x"},
		{"short hex", "/c/4f3a2b1c", "/c/:id"},
		{"ulid and nanoid", "/a/01ARZ3NDEKTSV4RRFFQ69G5FAV/V1StGXR8_Z5jdHi6B-myT", "/a/:id/:id"},
		{"an id with an extension", "/img/123.png", "/img/:id.png"},
		{"names with digits stay", "/v2/http2/my-post-title-2024/oauth2/1.5", "/v2/http2/my-post-title-2024/oauth2/1.5"},
		{"words that look like hex stay", "/facade/added", "/facade/added"},
		{"trailing slash stays", "/cart/", "/cart/"},
		{"opaque", "data:image/png;base64,AAAA", "data:"},
		{"blob", "blob:http://localhost/8f14e45f", "blob:"},
		{"extension", "chrome-extension://abcdef/popup.html", "/popup.html"},
		{"a masked value does no harm", "http://a/b?token=[REDACTED]&c", "/b"},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := template.Page(tt.in); got != tt.want {
				t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestTargetAndPathQuery(t *testing.T) {
	tests := []struct{ in, target, pathQuery string }{
		{"https://u:p@cdn.example:8443/lib/12.js?v=1#x", "cdn.example:8443/lib/:id.js", "/lib/12.js?v=1"},
		{"https://cdn.example", "cdn.example/", "/"},
		{"https://cdn.example?v=1", "cdn.example/", "/?v=1"},
		{"/api/users?x=a//b:c#d", "/api/users", "/api/users?x=a//b:c"},
		{"inline", "inline", "inline"},
		{"data:text/html,x", "data:", "data:"},
		{"", "", ""},
	}
	for _, tt := range tests {
		if got := string(template.AppendTarget([]byte("> "), tt.in)); got != "> "+tt.target {
			t.Errorf("target of %q: %q", tt.in, got)
		}
		if got := template.PathQuery(tt.in); got != tt.pathQuery {
			t.Errorf("path and query of %q: %q", tt.in, got)
		}
	}
}

func FuzzPage(f *testing.F) {
	for _, seed := range []string{"http://a:1/b/2?c#d", "//x", "a:b", "/\xff/é", "::", "http://" + strings.Repeat("é", 400)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rawURL string) {
		page, target := template.Page(rawURL), string(template.AppendTarget(nil, rawURL))
		if len(page) > template.MaxLen || len(target) > template.MaxLen {
			t.Errorf("%d and %d bytes", len(page), len(target))
		}
		if strings.ContainsAny(page, "?#") {
			t.Errorf("%q keeps its query", page)
		}
		if utf8.ValidString(rawURL) && len(rawURL) < 2000 && !(utf8.ValidString(page) && utf8.ValidString(target)) {
			t.Errorf("valid text became %q, %q", page, target)
		}
		template.PathQuery(rawURL)
	})
}

func BenchmarkPage(b *testing.B) {
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		buf = template.AppendPage(buf[:0], "http://localhost:3000/api/v2/users/8f14e45f-ceea-467f-a8f2-9b1d1c2f4c11/orders/42?expand=items")
	}
}
