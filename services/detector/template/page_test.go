package template_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

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
		{"short names with digits stay", "/v2/http2/oauth2/s3/i18n/utf8/h1/k8s/e2e/b2b/es2015/3d/2fa/1080p", "/v2/http2/oauth2/s3/i18n/utf8/h1/k8s/e2e/b2b/es2015/3d/2fa/1080p"},
		{"versions stay", "/v2/v1.5/v10.0.1/v1beta1/v2alpha/v1.2-rc1", "/v2/v1.5/v10.0.1/v1beta1/v2alpha/v1.2-rc1"},
		{"names of several words stay", "/red-shoes/step-two/convertBase64ToUtf8/iPhone15ProMax", "/red-shoes/step-two/convertBase64ToUtf8/iPhone15ProMax"},
		{"files stay", "/index.html/app.min.js/font.woff2/a.mp3", "/index.html/app.min.js/font.woff2/a.mp3"},
		{"words that look like hex stay", "/facade/added", "/facade/added"},
		{"hex without a digit", "/users/deadbeef", "/users/:id"},
		{"short hex that begins with a digit", "/sessions/1a2b", "/sessions/:id"},
		{"0x", "/u/0x1f/0xff", "/u/:id/:id"},
		{"an id behind a name", "/users/user-42/order_123/page-2", "/users/user-:id/order_:id/page-:id"},
		{"a number behind letters, from 5 digits on", "/user1234/user12345", "/user1234/:id"},
		{"joined ids are one", "/reports/2026-01-28/orders/INV-2024-0001/10.0.0.5", "/reports/:id/orders/INV-:id/:id"},
		{"a time", "/at/2026-01-28T14:30:00Z", "/at/:id"},
		{"a number takes its slug along", "/products/123-red-shoes/123_r%C3%B6d-2.html", "/products/:id/:id.html"},
		{"an id in the middle of a name does not", "/my-post-2024-review/a-4f3a2b1c-b", "/my-post-:id-review/a-:id-b"},
		{"ids with the name of what they are of", "/c/cus_NffrFeUfNV2Hib/users/usr_1a2b3c/sk_live_x7Kp2Lm9Qw4RtY", "/c/cus_:id/users/usr_:id/sk_live_:id"},
		{"random capitals and digits", "/v/dQw4w9WgXcQ/-V1StGXR8_Z5jdHi6B.png", "/v/:id/:id.png"},
		{"lists, verbs, parameters", "/users/42,43/users/42:activate/users/42;v=1", "/users/:id/users/:id:activate/users/:id;v=:id"},
		{"signs", "/users/-1/users/+4915123/map/52.5,-13.4", "/users/:id/users/:id/map/:id"},
		{"decimals", "/x/1.5", "/x/:id"},
		{"an id in the name of a file", "/static/app-8f3c2a1b.js/main.4f3a2b1c.chunk.css/jquery-3.6.0.min.js", "/static/app-:id.js/main.:id.chunk.css/jquery-:id.min.js"},
		{"an escape is no number", "/my%20file%2042/%20/a%", "/my%20file%20:id/%20/a%"},
		{"other scripts", "/größe/日本/größe-42", "/größe/日本/größe-:id"},
		{"only a query", "?q=1", "/"},
		{"only a fragment", "#/route", "/"},
		{"the contract's", "/api/v2/users", "/api/v2/users"},
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

// TestOnePageForEveryID checks that all ids of a form give the same page.
func TestOnePageForEveryID(t *testing.T) {
	forms := map[string]*rapid.Generator[string]{
		"/users/:id":      rapid.StringMatching(`/users/[-+]?(0|[1-9][0-9]{0,15})(,[0-9]{1,5}){0,3}`),
		"/users/user-:id": rapid.StringMatching(`/users/user-[0-9]{1,9}`),
		"/o/:id/x":        rapid.StringMatching(`/o/([0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|[0-9a-f]{8,40})/x`),
		"/on/:id":         rapid.StringMatching(`/on/20[0-9]{2}-[01][0-9]-[0-3][0-9](T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?Z)?`),
		"/p/:id":          rapid.StringMatching(`/p/[0-9]{1,6}(-[a-z]{2,9}){1,5}`),
	}
	for want, form := range forms {
		t.Run(want, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := form.Draw(t, "URL")
				if got := template.Page(in); got != want {
					t.Fatalf("page of %q = %q, want %q", in, got, want)
				}
			})
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
		if got, want := string(template.AppendTarget([]byte("> "), tt.in)), "> "+tt.target; got != want {
			t.Errorf("AppendTarget(%q) = %q, want %q", tt.in, got, want)
		}
		if got := template.PathQuery(tt.in); got != tt.pathQuery {
			t.Errorf("PathQuery(%q) = %q, want %q", tt.in, got, tt.pathQuery)
		}
	}
}

func FuzzPage(f *testing.F) {
	for _, seed := range []string{"/-1/cus_NffrFeUfNV2Hib.5/v1.2/%C3%A9-42;v=1/2026-01-28T14:30:00Z", "http://a:1/b/2?c#d", "//x", "a:b", "/\xff/é", "::", "http://" + strings.Repeat("é", 400)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rawURL string) {
		page, target := template.Page(rawURL), string(template.AppendTarget(nil, rawURL))
		if len(page) > template.MaxLen || len(target) > template.MaxLen {
			t.Errorf("page and target have %d and %d bytes, want at most %d", len(page), len(target), template.MaxLen)
		}
		if strings.ContainsAny(page, "?#") {
			t.Errorf("page = %q, want no query and no fragment", page)
		}
		if utf8.ValidString(rawURL) && len(rawURL) < 2000 && !(utf8.ValidString(page) && utf8.ValidString(target)) {
			t.Errorf("page and target of a valid URL = %q, %q, want valid UTF-8", page, target)
		}
		template.PathQuery(rawURL)
	})
}

func BenchmarkPage(b *testing.B) {
	for _, bm := range []struct{ name, url string }{
		{"typical", "http://localhost:3000/api/v2/users/8f14e45f-ceea-467f-a8f2-9b1d1c2f4c11/orders/42?expand=items"},
		{"random", "/c/cus_NffrFeUfNV2Hib/V1StGXR8_Z5jdHi6B-myT"},
		{"worst: addresses that are none", "/" + strings.Repeat("ab:", 1000)},
		{"worst: ids that are joined", "/" + strings.Repeat("a-1-", 1000)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				buf = template.AppendPage(buf[:0], bm.url)
			}
		})
	}
}
