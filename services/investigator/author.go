package investigator

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/investigator/client"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// personPrefix stands before the name of a user that is also an author that is no person.
const personPrefix = "user:"

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

func (p Proxies) proxy() httpguard.Proxy {
	return httpguard.Proxy{Networks: p.Networks, Header: p.Header}
}

// user returns the user that a proxy names, or nothing. A header that is given twice is refused.
func (p Proxies) user(r *http.Request) (string, error) {
	name, err := p.proxy().Author(r, p.Secret)
	if err != nil {
		return "", badRequest("%s", err)
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
	if len(values) == 0 || p.proxy().TrustsAuthor(r, p.Secret) || slices.ContainsFunc(forwarded, func(name string) bool { return len(r.Header.Values(name)) > 0 }) {
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
