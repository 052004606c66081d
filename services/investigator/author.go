package investigator

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// defaultUserHeader names the user where --trusted-proxy-header says nothing else. Then the
// alternatives count as well, in their order.
const defaultUserHeader = "X-Forwarded-User"

var userAlternatives = []string{"X-Forwarded-Email", "X-Remote-User"}

// proxyHeader is the header in which a proxy proves itself.
const proxyHeader = "X-Tocsin-Proxy"

// maxAuthor bounds the name of an author, in characters.
const maxAuthor = 200

// Proxies are the proxies that sign people in.
type Proxies struct {
	// Networks are their addresses. Those of loopback are trusted only with the Secret, which
	// the proxy sends as X-Tocsin-Proxy: every program of this machine has such an address.
	Networks []httpguard.Network
	Secret   string
	// Header names the user; empty is X-Forwarded-User, else X-Forwarded-Email, else X-Remote-User.
	// No header but a configured one counts: the proxy need not remove others that clients send.
	Header string
}

// headers returns the headers that name the user; the first that is set wins.
func (p Proxies) headers() []string {
	if header := cmp.Or(p.Header, defaultUserHeader); !strings.EqualFold(header, defaultUserHeader) {
		return []string{header}
	}
	return append([]string{defaultUserHeader}, userAlternatives...)
}

// trusts reports whether a request comes from a proxy.
func (p Proxies) trusts(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := from.Addr().Unmap()
	if !slices.ContainsFunc(p.Networks, func(n httpguard.Network) bool { return n.Contains(addr) }) {
		return false
	}
	proofs := r.Header.Values(proxyHeader)
	proven := p.Secret != "" && len(proofs) == 1 && httpguard.SameSecret(proofs[0], p.Secret)
	return proven || !addr.IsLoopback() && len(proofs) == 0
}

// user returns the user that a proxy names, or nothing. A header that is given twice is refused: one
// of them may come from the client.
func (p Proxies) user(r *http.Request) (string, error) {
	if !p.trusts(r) {
		return "", nil
	}
	name := ""
	for _, header := range p.headers() {
		values := r.Header.Values(header)
		if len(values) > 1 {
			return "", badRequest("the header %s is given twice", header)
		}
		if len(values) == 1 && name == "" {
			name = strings.TrimSpace(sanitize.Visible(values[0]))
		}
	}
	return sanitize.Cut(name, maxAuthor), nil
}

// author returns who makes a request.
func (p Proxies) author(r *http.Request) (string, error) {
	user, err := p.user(r)
	if user == "" {
		user = AuthorAPI
	}
	return user, err
}

// signedIn reports whether a proxy has signed the user in.
func (p Proxies) signedIn(r *http.Request) bool {
	user, err := p.user(r)
	return err == nil && user != ""
}
