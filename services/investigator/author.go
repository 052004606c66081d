package investigator

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/investigator/client"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// defaultUserHeader names the user where --trusted-proxy-header says nothing else. Then the
// alternatives count as well, in their order.
const defaultUserHeader = "X-Forwarded-User"

var userAlternatives = []string{"X-Forwarded-Email", "X-Remote-User"}

// groupHeaders name the user's groups. They decide nothing yet.
var groupHeaders = []string{"X-Forwarded-Groups", "X-Remote-Groups"}

// personPrefix stands before the name of a user that is also an author that is no person.
const personPrefix = "user:"

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
	name, headers := "", p.headers()
	for i, header := range slices.Concat(headers, groupHeaders) {
		values := r.Header.Values(header)
		if len(values) > 1 {
			return "", badRequest("the header %s is given twice", header)
		}
		if len(values) == 1 && name == "" && i < len(headers) {
			name = strings.TrimSpace(sanitize.Visible(values[0]))
		}
	}
	if isNoPerson(name) {
		name = personPrefix + name
	}
	return sanitize.Cut(name, maxAuthor), nil
}

// isNoPerson reports whether a name is that of an author that is no person.
func isNoPerson(name string) bool {
	name = strings.ToLower(name)
	return name == AuthorAPI || name == AuthorTrigger || strings.HasPrefix(name, AuthorMCP) || strings.HasPrefix(name, AuthorCLI)
}

// author returns who makes a request: the user of a proxy, the user of the command line, or
// [AuthorAPI].
func (p Proxies) author(r *http.Request) (string, error) {
	user, err := p.user(r)
	if err == nil && user == "" {
		user, err = p.cliUser(r)
	}
	return cmp.Or(user, AuthorAPI), err
}

// cliUser returns cli: and the name of who runs the command line, or nothing. The name is what the
// command says: the prefix keeps it apart from users of proxies and from triggers. Requests of
// pages, and those that a proxy forwards, have no such user.
func (p Proxies) cliUser(r *http.Request) (string, error) {
	values := r.Header.Values(client.UserHeader)
	if len(values) == 0 || p.trusts(r) || slices.ContainsFunc(forwarded, func(name string) bool { return len(r.Header.Values(name)) > 0 }) {
		return "", nil
	}
	if len(values) > 1 {
		return "", badRequest("the header %s is given twice", client.UserHeader)
	}
	name := strings.TrimSpace(sanitize.Visible(values[0]))
	if name == "" {
		return "", nil
	}
	return AuthorCLI + sanitize.Cut(name, maxAuthor-len(AuthorCLI)), nil
}

// forwarded are headers that no command line sends.
var forwarded = []string{"Origin", "Forwarded", "X-Forwarded-For", "Via"}

// signedIn reports whether a proxy has signed the user in, or names one twice: [Proxies.check]
// refuses that, with a better answer than that a token is missing.
func (p Proxies) signedIn(r *http.Request) bool {
	user, err := p.user(r)
	return err != nil || user != ""
}

// check returns a route that refuses requests in which a proxy names the user twice.
func (p Proxies) check(route httpserve.Route) httpserve.Route {
	if answer := route.Answer; answer != nil {
		route.Answer = func(r *http.Request) (httpserve.Answer, error) {
			if _, err := p.user(r); err != nil {
				return httpserve.Answer{}, err
			}
			return answer(r)
		}
	}
	if handle := route.Handle; handle != nil {
		route.Handle = func(w http.ResponseWriter, r *http.Request) error {
			if _, err := p.user(r); err != nil {
				return err
			}
			return handle(w, r)
		}
	}
	return route
}
