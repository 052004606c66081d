package httpguard

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Why a request is answered with 401. Their texts are for people.
var (
	ErrNoToken    = errors.New("a token is required: send Authorization: Bearer with the value of TOCSIN_TOKEN")
	ErrWrongToken = errors.New("the token is not valid")
	// ErrUnset is returned where a request needs a token and none is set.
	ErrUnset = errors.New("a token is required, and none is set: set TOCSIN_TOKEN, then send Authorization: Bearer with its value")
)

// CheckToken returns nil where a request has the token as Authorization: Bearer, or
// where there is no token; else ErrNoToken or ErrWrongToken.
func CheckToken(r *http.Request, token string) error {
	switch {
	case HasToken(r, token):
		return nil
	case bearer(r) == "":
		return ErrNoToken
	}
	return ErrWrongToken
}

// Access says who may read from a listener. On this machine everybody may; what comes
// from elsewhere needs a proof.
type Access struct {
	// Token is what proves it, as Authorization: Bearer. It may be empty.
	Token string
	// Beyond reports whether other machines can reach the listener.
	Beyond bool
	// Proxy names proxies whose users may.
	Proxy Proxy
	// SignedIn reports whether a request has the proof of a sign-in. It may be nil.
	SignedIn func(*http.Request) bool
}

// Guarded reports whether a request needs a proof to read: the listener is not on
// loopback, or the request's Host is not.
func (a Access) Guarded(r *http.Request) bool {
	if a.Beyond {
		return true
	}
	h, ok := parseHost(r.Host)
	return !ok || !Loopback(h.name)
}

// CheckRead returns nil where a request may read, or why not.
func (a Access) CheckRead(r *http.Request) error {
	if !a.Guarded(r) {
		return nil
	}
	return a.prove(r)
}

// CheckWrite returns nil where a request may write, or why not: where there is a token
// a write needs a proof on this machine as well.
func (a Access) CheckWrite(r *http.Request) error {
	if a.Token == "" && !a.Guarded(r) {
		return nil
	}
	return a.prove(r)
}

func (a Access) prove(r *http.Request) error {
	switch {
	case a.Proxy.User(r) != "":
		return nil
	case a.SignedIn != nil && a.SignedIn(r):
		return nil
	case a.Token == "":
		return ErrUnset
	}
	return CheckToken(r, a.Token)
}

// Beyond reports whether other machines can reach a listener at one of the addresses.
// Those that are nil do not listen.
func Beyond(addrs ...net.Addr) bool {
	return slices.ContainsFunc(addrs, func(addr net.Addr) bool {
		if addr == nil {
			return false
		}
		at, ok := addr.(*net.TCPAddr)
		return !ok || !at.IP.IsLoopback()
	})
}

// DefaultUserHeader is the header in which a proxy names the user, where no other is
// set.
const DefaultUserHeader = "X-Forwarded-User"

// Proxy is a proxy in front of a listener that signs people in. Without Networks there
// is none.
type Proxy struct {
	// Networks are where it comes from: every address in them is trusted.
	Networks []Network
	// Header is the one in which it names the user; the proxy must take it out of what
	// others send. Empty means DefaultUserHeader.
	Header string
}

// User returns the user that a trusted proxy names, or nothing.
func (p Proxy) User(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !slices.ContainsFunc(p.Networks, func(n Network) bool { return n.Contains(from.Addr().Unmap()) }) {
		return ""
	}
	name := p.Header
	if name == "" {
		name = DefaultUserHeader
	}
	values := r.Header.Values(name)
	if len(values) != 1 { // two would be one of the proxy and one of somebody else
		return ""
	}
	return strings.TrimSpace(values[0])
}

// Network is an address, or a network such as 10.0.0.0/8.
type Network struct{ netip.Prefix }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Network) UnmarshalText(text []byte) error {
	if addr, err := netip.ParseAddr(string(text)); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		n.Prefix = netip.PrefixFrom(addr, addr.BitLen())
		return nil
	}
	prefix, err := netip.ParsePrefix(string(text))
	if err != nil {
		return fmt.Errorf("%q must be an address or a network, such as 10.0.0.5 or 10.0.0.0/8", shown(string(text)))
	}
	n.Prefix = prefix.Masked()
	return nil
}
