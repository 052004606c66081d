package httpguard_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

func TestCheckListen(t *testing.T) {
	for _, c := range []struct{ addr, token, want string }{
		{"127.0.0.1:0", "", ""},
		{"127.9.9.9:65535", "", ""},
		{"[::1]:7422", "", ""},
		{"localhost:7422", "", ""},
		{"0.0.0.0:0", "", "TOCSIN_TOKEN"},
		{":0", "", "TOCSIN_TOKEN"},
		{"[::]:0", "", "TOCSIN_TOKEN"},
		{"[::ffff:0.0.0.0]:0", "", "TOCSIN_TOKEN"},
		{"192.0.2.1:1", "", "TOCSIN_TOKEN"},
		{"tocsin.example:1", "", "TOCSIN_TOKEN"},
		{"127.1:1", "", "TOCSIN_TOKEN"}, // may be another name to the resolver
		{"0.0.0.0:0", " \t\n", "TOCSIN_TOKEN"},
		{"0.0.0.0:0", "secret", ""},
		{"foo", "secret", "must be host:port"},
		{"", "secret", "must be host:port"},
		{"::1:7422", "secret", "must be host:port"},
		{"127.0.0.1:99999", "secret", "between 0 and 65535"},
		{"127.0.0.1:-1", "", "between 0 and 65535"},
		{"127.0.0.1:", "", "between 0 and 65535"},
		{"127.0.0.1:http", "", "between 0 and 65535"},
	} {
		err := httpguard.CheckListen(t.Context(), "SETTING", c.addr, c.token)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("CheckListen(%q, token %q) = %v, want nil", c.addr, c.token, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "SETTING ")):
			t.Errorf("%q, %q: %v, want %q", c.addr, c.token, err, c.want)
		}
	}
}

func TestReachable(t *testing.T) {
	for _, c := range []struct{ ip, want string }{
		{"0.0.0.0", "127.0.0.1:9"}, {"::", "127.0.0.1:9"}, {"127.0.0.1", "127.0.0.1:9"}, {"::1", "[::1]:9"}, {"192.0.2.1", "192.0.2.1:9"},
	} {
		if got := httpguard.DialAddress(&net.TCPAddr{IP: net.ParseIP(c.ip), Port: 9}); got != c.want {
			t.Errorf("%s: %s, want %s", c.ip, got, c.want)
		}
	}
}

func TestListeningOn(t *testing.T) {
	for _, c := range []struct {
		addr, host string
		want       bool
	}{
		{"192.0.2.1:7443", "192.0.2.1:7443", true},
		{"192.0.2.1:7443", "192.0.2.2:7443", false},
		{"[2001:db8::1]:7443", "[2001:db8::1]:7443", true},
		{"tocsin.example:7443", "tocsin.example:7443", true},
		{"0.0.0.0:7443", "0.0.0.0:7443", false},
		{"[::]:7443", "[::]:7443", false},
		{":7443", "tocsin.example:7443", false},
		{"nonsense", "nonsense", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
		r.Host = c.host
		if err := (httpguard.Policy{}).WithListener(c.addr).CheckHost(r); (err == nil) != c.want {
			t.Errorf("listening on %s: CheckHost(%s) = %v, want allowed = %t", c.addr, c.host, err, c.want)
		}
	}
}
