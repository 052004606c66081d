package httpguard

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Reasons to answer a request with 401. The texts are for people.
var (
	ErrNoToken    = errors.New("a token is required: send Authorization: Bearer with the value of TOCSIN_TOKEN")
	ErrWrongToken = errors.New("the token is not valid")
	// ErrTokenUnset is returned when a request needs a token and none is configured.
	ErrTokenUnset = errors.New("a token is required, and none is set: set TOCSIN_TOKEN, then send Authorization: Bearer with its value")
)

// CheckToken returns nil if a request has the token as Authorization: Bearer or no token
// is configured, else [ErrNoToken] or [ErrWrongToken].
func CheckToken(r *http.Request, token string) error {
	switch {
	case HasToken(r, token):
		return nil
	case bearer(r) == "":
		return ErrNoToken
	}
	return ErrWrongToken
}

// Access decides who may read from and write to a listener. Everybody on this machine may
// read; a request from elsewhere needs a proof: the token, a signed-in proxy user or a cookie.
type Access struct {
	// Token is a proof if a request has it as Authorization: Bearer. It may be empty.
	Token string
	// Exposed reports whether other machines can reach the listener.
	Exposed bool
	// Proxy is a proxy that has authenticated its users.
	Proxy Proxy
	// SignedIn reports whether a request has the cookie of a sign-in. It may be nil.
	SignedIn func(*http.Request) bool
}

// NeedsProof reports whether a request needs a proof to read: the listener is not on
// loopback, or the request's Host is not.
func (a Access) NeedsProof(r *http.Request) bool {
	if a.Exposed {
		return true
	}
	h, ok := parseHost(r.Host)
	return !ok || !Loopback(h.name)
}

// CheckRead returns why a request may not read, or nil.
func (a Access) CheckRead(r *http.Request) error {
	if !a.NeedsProof(r) {
		return nil
	}
	return a.checkProof(r)
}

// CheckWrite returns why a request may not write, or nil. If a token is configured, writes
// from this machine need a proof too.
func (a Access) CheckWrite(r *http.Request) error {
	if a.Token == "" && !a.NeedsProof(r) {
		return nil
	}
	return a.checkProof(r)
}

func (a Access) checkProof(r *http.Request) error {
	switch {
	case a.Proxy.User(r) != "":
		return nil
	case a.SignedIn != nil && a.SignedIn(r):
		return nil
	case a.Token == "":
		return ErrTokenUnset
	}
	return CheckToken(r, a.Token)
}

// Exposed reports whether other machines can reach a listener at one of the addresses. A
// nil address is ignored.
func Exposed(addrs ...net.Addr) bool {
	return slices.ContainsFunc(addrs, func(addr net.Addr) bool {
		if addr == nil {
			return false
		}
		at, ok := addr.(*net.TCPAddr)
		return !ok || !at.IP.IsLoopback()
	})
}

// DefaultUserHeader is the header in which a proxy names the user by default.
const DefaultUserHeader = "X-Forwarded-User"

// Proxy is a proxy in front of a listener that signs people in. Without Networks there is
// none.
type Proxy struct {
	// Networks are the addresses of the proxy. Every address in them is trusted.
	Networks []Network
	// Header names the user. The proxy must remove it from requests of others. Empty means
	// DefaultUserHeader; then Author takes X-Forwarded-Email and X-Remote-User too.
	Header string
}

func (p Proxy) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(p.Networks, func(n Network) bool { return n.Contains(addr.Unmap()) })
}

func (p Proxy) header() string { return cmp.Or(p.Header, DefaultUserHeader) }

// SetUser names the user to another service that trusts this one as a proxy.
func (p Proxy) SetUser(header http.Header, user, secret string) {
	header.Set(p.header(), user)
	if secret != "" {
		header.Set(ProofHeader, secret)
	}
}

// User returns the user that a trusted proxy names, or nothing.
func (p Proxy) User(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !p.trusts(from.Addr()) {
		return ""
	}
	values := r.Header.Values(p.header())
	if len(values) != 1 { // of two, one may come from the client
		return ""
	}
	return strings.TrimSpace(values[0])
}

// ProofHeader is the header in which a proxy proves itself with a secret.
const ProofHeader = "X-Tocsin-Proxy"

// ErrHeaderTwice is returned when a request of a proxy has two headers of one name that names the
// user or the groups. One of them may come from the client.
var ErrHeaderTwice = errors.New("a header of the proxy is given twice")

var (
	// authorAlternatives name the author where DefaultUserHeader does not, in their order. They
	// count only where no other header is configured: then a proxy need not remove them.
	authorAlternatives = []string{"X-Forwarded-Email", "X-Remote-User"}
	// groupHeaders name the author's groups. They decide nothing yet.
	groupHeaders = []string{"X-Forwarded-Groups", "X-Remote-Groups"}
)

// authorHeaders returns the headers that name the author. The first that has a name counts.
func (p Proxy) authorHeaders() []string {
	if !strings.EqualFold(p.header(), DefaultUserHeader) {
		return []string{p.header()}
	}
	return append([]string{DefaultUserHeader}, authorAlternatives...)
}

// TrustsAuthor reports whether the headers of a request name its author. That needs more than for
// User: a proxy on this machine, where every program has such an address, proves itself by the
// secret in ProofHeader. Others need not, but a proof must be right.
func (p Proxy) TrustsAuthor(r *http.Request, secret string) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !p.trusts(from.Addr()) {
		return false
	}
	proofs := r.Header.Values(ProofHeader)
	proven := secret != "" && len(proofs) == 1 && SameSecret(proofs[0], secret)
	return proven || !from.Addr().Unmap().IsLoopback() && len(proofs) == 0
}

// Author returns the user that a trusted proxy names as the author of what the request does, without
// hidden characters, or nothing.
func (p Proxy) Author(r *http.Request, secret string) (string, error) {
	if !p.TrustsAuthor(r, secret) {
		return "", nil
	}
	author, names := "", p.authorHeaders()
	for i, header := range slices.Concat(names, groupHeaders) {
		values := r.Header.Values(header)
		if len(values) > 1 {
			return "", fmt.Errorf("%w: %s", ErrHeaderTwice, header)
		}
		if len(values) == 1 && author == "" && i < len(names) {
			author = strings.TrimSpace(sanitize.Visible(values[0]))
		}
	}
	return author, nil
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
		return fmt.Errorf("%q must be an address or a network, such as 10.0.0.5 or 10.0.0.0/8", displayed(string(text)))
	}
	n.Prefix = prefix.Masked()
	return nil
}
