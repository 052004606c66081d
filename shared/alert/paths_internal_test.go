package alert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestQuoted(t *testing.T) {
	many := ""
	for i := range 20 {
		many += fmt.Sprint(" /p", i)
	}
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"no path in it", ""},
		{"POST /api/cart failed", "/api/cart"},
		{"/api/cart", "/api/cart"},
		{"/api/cart.", "/api/cart"},
		{"/api/cart/", "/api/cart/"},
		{`fetch "/api/cart" failed, (/api/pay) too`, "/api/cart /api/pay"},
		{"http://localhost:3000/api/cart?id=1#top", "/api/cart"},
		{"at https://api.example/v1/users/42: 500", "/v1/users/42"},
		{"//cdn.example/lib.js", "/lib.js"},
		{"http://localhost:3000", ""},
		{"http://localhost:3000 and /api", "/api"},
		{"http://", ""},
		{"file:///srv/app.js", "/srv/app.js"},
		{"GET:/api/cart:500", "/api/cart:500"},
		{"url=/api/cart&x", "/api/cart&x"},
		{"src/cart and a/b/c", ""},
		{"1/2 and / and // and ///", ""},
		{"/api/cart /api/cart", "/api/cart"},
		{"/users/<n>/carts", "/users/"},
		{"/" + strings.Repeat("x", maxPath), ""},
		{many, "/p0 /p1 /p2 /p3 /p4 /p5 /p6 /p7"},
		{"/caf\u00e9/\u4e2d", "/caf\u00e9/\u4e2d"},
	} {
		if got := strings.Join(mentionedPaths(nil, tt.text), " "); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.text, got, tt.want)
		}
	}
}

func TestIsOf(t *testing.T) {
	for _, tt := range []struct {
		path, template string
		want           bool
	}{
		{"/api/cart", "/api/cart", true},
		{"/api/cart", "/api/carts", false},
		{"/api/cart", "/api", false},
		{"/api", "/api/cart", false},
		{"/api/cart/", "/api/cart", false},
		{"/users/42", "/users/:id", true},
		{"/users/", "/users/:id", false},
		{"/users/42/carts", "/users/:id", false},
		{"/users/42/carts/7", "/users/:id/carts/:id", true},
		{"/user-42", "/user-:id", true},
		{"/user-", "/user-:id", false},
		{"/app-8f3c.js", "/app-:id.js", true},
		{"/app-.js", "/app-:id.js", false},
		{"/app-8f3c.css", "/app-:id.js", false},
		{"/1-a-2", "/:id-a-:id", true},
		{"/1-a-", "/:id-a-:id", false},
		{"/a", "/:id", true},
		{"", "", true},
	} {
		if got := matchesTemplate(tt.path, tt.template); got != tt.want {
			t.Errorf("matchesTemplate(%q, %q) = %t, want %t", tt.path, tt.template, got, tt.want)
		}
	}
}

func TestDeploys(t *testing.T) {
	const commit = "9f3c2ab1d2e3f405162738495a6b7c8d9e0f1a2b"
	for _, tt := range []struct {
		commit, release string
		want            bool
	}{
		{commit, commit, true},
		{commit, commit[:7], true},
		{commit, commit[:6], false},
		{commit[:7], commit, true},
		{commit[:6], commit, false},
		{commit, "web@" + commit[:7], true},
		{commit, "web@1.2.3+" + commit[:8], true},
		{commit, "v1.2.3-4-g" + commit[:7], true},
		{commit, "v1.2.3-4-g" + commit[:7] + "-dirty", true},
		{commit, strings.ToUpper(commit[:9]), true},
		{strings.ToUpper(commit), commit[:9], true},
		{commit, "9f3c2ac", false},
		{commit, "x" + commit[:7], false},
		{commit, "web@1.2.3", false},
		{commit, "", false},
		{"", "", false},
		{"", "web@1", false},
		{"abc123", "abc123", true},
		{"abc123", "web@abc123", true},
		{"abc123", "abc1234", false},
		{"unknown", "unknown", false},
		{"main", "web@main", false},
		{"v1.2", "web@v1.2", true},
		{"v1.2", "web@v1.2.3", false},
	} {
		if got := isCommitOf(tt.commit, tt.release); got != tt.want {
			t.Errorf("isCommitOf(%q, %q) = %t, want %t", tt.commit, tt.release, got, tt.want)
		}
	}
}

// FuzzQuoted checks that each path found in a text is part of that text, is a path, and
// stays within the bounds, and that a path without an id matches itself as a template.
func FuzzQuoted(f *testing.F) {
	f.Add("POST http://a.example:80/api/cart?x, then '/b'.")
	f.Add("//// :// /\x00 \xff/\xff")
	f.Fuzz(func(t *testing.T, text string) {
		paths := mentionedPaths(nil, text)
		if len(paths) > maxPaths {
			t.Fatalf("%d paths, want at most %d", len(paths), maxPaths)
		}
		for i, path := range paths {
			if len(path) < 2 || len(path) > maxPath || path[0] != '/' || !strings.Contains(text, path) || indexClass(path, 0, afterPath) < len(path) {
				t.Errorf("found %q in %q, want a path of 2 to %d bytes that is in the text", path, text, maxPath)
			}
			if slices.Contains(paths[:i], path) {
				t.Errorf("%q is found twice, want once", path)
			}
			if !strings.Contains(path, idPattern) && !matchesTemplate(path, path) {
				t.Errorf("matchesTemplate(%q, %[1]q) = false, want true", path)
			}
		}
	})
}

// FuzzIsOf checks that a template whose ids are replaced by a text gives a path that
// matches the template.
func FuzzIsOf(f *testing.F) {
	f.Add("/users/:id/app-:id.js", "42")
	f.Add("/:id:id/x", "/")
	f.Fuzz(func(t *testing.T, template, id string) {
		matchesTemplate(id, template)
		if id == "" || strings.Contains(id, "/") || strings.Contains(template, idPattern+idPattern) {
			return
		}
		if path := strings.ReplaceAll(template, idPattern, id); !matchesTemplate(path, template) {
			t.Errorf("matchesTemplate(%q, %q) = false, want true", path, template)
		}
	})
}
