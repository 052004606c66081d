package investigator

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/investigator/client"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// TestAuthor checks who may name the user of the command line, and that such a user is never one of
// a proxy or a trigger.
func TestAuthor(t *testing.T) {
	long := strings.Repeat("x", 2*maxAuthor)
	for _, c := range []struct {
		name   string
		from   string
		secret string
		header []string
		want   string
		twice  bool
	}{
		{name: "no user", want: AuthorAPI},
		{name: "a user", header: []string{client.UserHeader, "ann"}, want: "cli:ann"},
		{name: "a user of Windows", header: []string{client.UserHeader, `CORP\ann`}, want: `cli:CORP\ann`},
		{name: "a user with the name of a trigger", header: []string{client.UserHeader, AuthorTrigger}, want: "cli:trigger"},
		{name: "a user with the name of an MCP client", header: []string{client.UserHeader, "mcp:claude"}, want: "cli:mcp:claude"},
		{name: "an empty user", header: []string{client.UserHeader, " "}, want: AuthorAPI},
		{name: "control characters", header: []string{client.UserHeader, "a\x1b[31m"}, want: "cli:a␛[31m"},
		{name: "a long user", header: []string{client.UserHeader, long}, want: "cli:" + long[:maxAuthor-len("cli:")-1] + "…"},
		{name: "two users", header: []string{client.UserHeader, "ann", client.UserHeader, "bob"}, twice: true},
		{name: "a page", header: []string{client.UserHeader, "ann", "Origin", "http://127.0.0.1:7490"}, want: AuthorAPI},
		{name: "a forwarded request", header: []string{client.UserHeader, "ann", "X-Forwarded-For", "192.0.2.9"}, want: AuthorAPI},
		{name: "another forwarded request", header: []string{client.UserHeader, "ann", "Forwarded", "for=192.0.2.9"}, want: AuthorAPI},
		{name: "two users in a forwarded request", header: []string{client.UserHeader, "ann", client.UserHeader, "bob", "Via", "1.1 x"}, want: AuthorAPI},
		{name: "a proxy", from: "192.0.2.7:1", header: []string{client.UserHeader, "ann", "X-Forwarded-User", "eve"}, want: "eve"},
		{name: "a proxy without a user", from: "192.0.2.7:1", header: []string{client.UserHeader, "ann"}, want: AuthorAPI},
		{name: "a proxy on this machine", secret: "s", header: []string{client.UserHeader, "ann", "X-Tocsin-Proxy", "s", "X-Forwarded-User", "eve"}, want: "eve"},
		{name: "no proxy on this machine", secret: "s", header: []string{client.UserHeader, "ann", "X-Tocsin-Proxy", "t", "X-Forwarded-User", "eve"}, want: "cli:ann"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:7490"+alerts, http.NoBody)
			r.RemoteAddr = "127.0.0.1:1234"
			if c.from != "" {
				r.RemoteAddr = c.from
			}
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Add(c.header[i], c.header[i+1])
			}
			p := Proxies{Secret: c.secret}
			for _, text := range []string{"192.0.2.7", "127.0.0.1"} {
				var n httpguard.Network
				if err := n.UnmarshalText([]byte(text)); err != nil {
					t.Fatal(err)
				}
				p.Networks = append(p.Networks, n)
			}
			got, err := p.author(r)
			var refusal *Refusal
			if c.twice {
				if !asRefusal(err, &refusal) || refusal.Status != http.StatusBadRequest {
					t.Errorf("author = %q, %v, want 400", got, err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("author = %q, %v, want %q", got, err, c.want)
			}
		})
	}
}
