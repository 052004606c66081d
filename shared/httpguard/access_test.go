package httpguard_test

import (
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

func network(t *testing.T, text string) httpguard.Network {
	t.Helper()
	var n httpguard.Network
	if err := n.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAccess(t *testing.T) {
	proxy := httpguard.Proxy{Networks: []httpguard.Network{network(t, "192.0.2.1")}}
	open := httpguard.Access{}
	token := httpguard.Access{Token: "s3cret", Proxy: proxy}
	beyond := httpguard.Access{Token: "s3cret", Exposed: true, Proxy: proxy, SignedIn: func(r *http.Request) bool { return r.Header.Get("Cookie") == "known" }}
	const here, there = "localhost:7480", "tocsin.example:7480"
	none, wrong, unset := httpguard.ErrNoToken, httpguard.ErrWrongToken, httpguard.ErrTokenUnset
	for _, c := range []struct {
		name        string
		access      httpguard.Access
		host        string
		header      []string
		read, write error
	}{
		{"loopback without a token", open, here, nil, nil, nil},
		{"loopback without a token, another host", open, there, nil, unset, unset},
		{"another host, a token that there is not", open, there, []string{"Authorization", "Bearer x"}, unset, unset},
		{"loopback with a token", token, here, nil, nil, none},
		{"its address", token, "127.0.0.1", nil, nil, none},
		{"loopback with the token", token, here, []string{"Authorization", "Bearer s3cret"}, nil, nil},
		{"loopback with a wrong one", token, here, []string{"Authorization", "Bearer x"}, nil, wrong},
		{"another host", token, there, nil, none, none},
		{"another host with the token", token, there, []string{"Authorization", "bearer s3cret"}, nil, nil},
		{"another host with a wrong one", token, there, []string{"Authorization", "Bearer x"}, wrong, wrong},
		{"another scheme", token, there, []string{"Authorization", "Basic s3cret"}, none, none},
		{"no value", token, there, []string{"Authorization", "Bearer "}, none, none},
		{"beyond loopback, any host", beyond, here, nil, none, none},
		{"beyond loopback with a wrong one", beyond, here, []string{"Authorization", "Bearer x"}, wrong, wrong},
		{"signed in", beyond, here, []string{"Cookie", "known"}, nil, nil},
		{"signed in, elsewhere", beyond, here, []string{"Cookie", "unknown"}, none, none},
		{"a proxy's user", beyond, there, []string{"X-Forwarded-User", "ann"}, nil, nil},
		{"a proxy's empty user", beyond, there, []string{"X-Forwarded-User", " "}, none, none},
		{"a proxy's user twice", beyond, there, []string{"X-Forwarded-User", "ann", "X-Forwarded-User", "bob"}, none, none},
		{"not a host", beyond, "", nil, none, none},
	} {
		r := request("GET", c.host, c.header...)
		r.RemoteAddr = "[::ffff:192.0.2.1]:5555"
		if err := c.access.CheckRead(r); !errors.Is(err, c.read) {
			t.Errorf("%s: reads: %v, want %v", c.name, err, c.read)
		}
		if err := c.access.CheckWrite(r); !errors.Is(err, c.write) {
			t.Errorf("%s: writes: %v, want %v", c.name, err, c.write)
		}
	}
}

func TestProxyUser(t *testing.T) {
	for _, c := range []struct{ networks, header, from, sent, want string }{
		{"192.0.2.1", "", "192.0.2.1:9", "X-Forwarded-User", "ann"},
		{"192.0.2.0/24", "", "192.0.2.77:9", "X-Forwarded-User", "ann"},
		{"192.0.2.1", "", "192.0.2.2:9", "X-Forwarded-User", ""},
		{"192.0.2.1", "Remote-User", "192.0.2.1:9", "Remote-User", "ann"},
		{"192.0.2.1", "Remote-User", "192.0.2.1:9", "X-Forwarded-User", ""},
		{"2001:db8::/32", "", "[2001:db8::7]:9", "X-Forwarded-User", "ann"},
		{"192.0.2.1", "", "pipe", "X-Forwarded-User", ""},
	} {
		p := httpguard.Proxy{Networks: []httpguard.Network{network(t, c.networks)}, Header: c.header}
		r := request("GET", "localhost", c.sent, "ann")
		r.RemoteAddr = c.from
		if got := p.User(r); got != c.want {
			t.Errorf("%+v: user %q, want %q", c, got, c.want)
		}
	}
	r := request("GET", "localhost", "X-Forwarded-User", "ann")
	r.RemoteAddr = "127.0.0.1:9"
	if got := (httpguard.Proxy{}).User(r); got != "" {
		t.Errorf("without a proxy: user %q, want none", got)
	}
	for _, text := range []string{"", "proxy.example", "10.0.0.0/33", "fe80::1%eth0"} {
		if err := new(httpguard.Network).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("UnmarshalText(%q) = nil, want an error", text)
		}
	}
}

// TestProxyAuthor checks that a proxy on this machine needs a proof, and that a wrong proof counts
// for nothing anywhere.
func TestProxyAuthor(t *testing.T) {
	const user, proof = "X-Forwarded-User", httpguard.ProofHeader
	for _, c := range []struct {
		name, secret, from string
		header             []string
		want               string
		err                error
	}{
		{"a proxy", "", "192.0.2.1:9", []string{user, " ann "}, "ann", nil},
		{"a proxy without a user", "", "192.0.2.1:9", nil, "", nil},
		{"a proxy with its proof", "p", "192.0.2.1:9", []string{user, "ann", proof, "p"}, "ann", nil},
		{"a proxy without the proof", "p", "192.0.2.1:9", []string{user, "ann"}, "ann", nil},
		{"a proxy with a wrong proof", "p", "192.0.2.1:9", []string{user, "ann", proof, "q"}, "", nil},
		{"a proxy with a proof, and no secret is set", "", "192.0.2.1:9", []string{user, "ann", proof, ""}, "", nil},
		{"a proxy with two proofs", "p", "192.0.2.1:9", []string{user, "ann", proof, "p", proof, "p"}, "", nil},
		{"a proxy that names two", "", "192.0.2.1:9", []string{user, "ann", user, "bob"}, "", httpguard.ErrHeaderTwice},
		{"a proxy that names an e-mail", "", "192.0.2.1:9", []string{"X-Forwarded-Email", "ann@x", "X-Remote-User", "bob"}, "ann@x", nil},
		{"a proxy that names a remote user", "", "192.0.2.1:9", []string{user, " ", "X-Remote-User", "bob"}, "bob", nil},
		{"a proxy that names all", "", "192.0.2.1:9", []string{"X-Remote-User", "bob", "X-Forwarded-Email", "ann@x", user, "ann"}, "ann", nil},
		{"a proxy that names two e-mails beside a user", "", "192.0.2.1:9", []string{user, "ann", "X-Forwarded-Email", "a", "X-Forwarded-Email", "b"}, "", httpguard.ErrHeaderTwice},
		{"a proxy that names groups", "", "192.0.2.1:9", []string{user, "ann", "X-Forwarded-Groups", "a,b", "X-Remote-Groups", "c"}, "ann", nil},
		{"a proxy that names groups twice", "", "192.0.2.1:9", []string{user, "ann", "X-Forwarded-Groups", "a", "X-Forwarded-Groups", "b"}, "", httpguard.ErrHeaderTwice},
		{"a proxy that names remote groups twice", "", "192.0.2.1:9", []string{"X-Remote-Groups", "a", "X-Remote-Groups", "b"}, "", httpguard.ErrHeaderTwice},
		{"another machine that names groups twice", "", "192.0.2.2:9", []string{user, "ann", "X-Remote-Groups", "a", "X-Remote-Groups", "b"}, "", nil},
		{"hidden characters", "", "192.0.2.1:9", []string{user, "a\u202enn"}, "ann", nil},
		{"another machine that names two", "", "192.0.2.2:9", []string{user, "ann", user, "bob"}, "", nil},
		{"another machine with the proof", "p", "192.0.2.2:9", []string{user, "ann", proof, "p"}, "", nil},
		{"this machine", "", "127.0.0.1:9", []string{user, "ann"}, "", nil},
		{"this machine, and no secret is set", "", "127.0.0.1:9", []string{user, "ann", proof, ""}, "", nil},
		{"this machine without the proof", "p", "127.0.0.1:9", []string{user, "ann"}, "", nil},
		{"this machine with the proof", "p", "127.0.0.1:9", []string{user, "ann", proof, "p"}, "ann", nil},
		{"this machine, mapped", "p", "[::ffff:127.0.0.1]:9", []string{user, "ann"}, "", nil},
		{"a pipe", "p", "pipe", []string{user, "ann", proof, "p"}, "", nil},
	} {
		p := httpguard.Proxy{Networks: []httpguard.Network{network(t, "192.0.2.1"), network(t, "127.0.0.1")}}
		r := request("GET", "localhost", c.header...)
		r.RemoteAddr = c.from
		if got, err := p.Author(r, c.secret); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: author %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
	configured := httpguard.Proxy{Networks: []httpguard.Network{network(t, "192.0.2.1")}, Header: "Remote-User"}
	others := request("GET", "localhost", "Remote-User", "", "X-Forwarded-User", "eve", "X-Forwarded-Email", "eve@x", "X-Remote-User", "eve", "X-Remote-User", "eve")
	others.RemoteAddr = "192.0.2.1:9"
	if got, err := configured.Author(others, ""); got != "" || err != nil {
		t.Errorf("author by headers beside the configured one = %q, %v, want none", got, err)
	}
	r := request("GET", "localhost")
	r.RemoteAddr = "127.0.0.1:9"
	p := httpguard.Proxy{Networks: []httpguard.Network{network(t, "127.0.0.1")}, Header: "Remote-User"}
	p.SetUser(r.Header, "ann", "p")
	if got, err := p.Author(r, "p"); got != "ann" || err != nil {
		t.Errorf("author of a request with SetUser = %q, %v, want ann", got, err)
	}
}

func TestBeyond(t *testing.T) {
	at := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for _, c := range []struct {
		addrs []net.Addr
		want  bool
	}{
		{[]net.Addr{at("127.0.0.1")}, false}, {[]net.Addr{at("::1")}, false}, {[]net.Addr{at("127.0.0.1"), nil}, false},
		{[]net.Addr{at("0.0.0.0")}, true}, {[]net.Addr{at("::")}, true}, {[]net.Addr{at("127.0.0.1"), at("192.0.2.1")}, true},
		{[]net.Addr{&net.UnixAddr{}}, true},
	} {
		if got := httpguard.Exposed(c.addrs...); got != c.want {
			t.Errorf("%v: %t, want %t", c.addrs, got, c.want)
		}
	}
}
