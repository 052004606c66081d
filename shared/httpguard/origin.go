package httpguard

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// PageKind is the kind of page, if any, that made a request.
type PageKind int

// The kinds of pages.
const (
	// NoPage: the request names no page. A program made it, or a person followed a link.
	NoPage PageKind = iota
	// OwnPage: a page of this listener.
	OwnPage
	// LoopbackPage: another page of this machine.
	LoopbackPage
	// ConfiguredPage: a page of an allowed origin.
	ConfiguredPage
	// ForeignPage: any other page, among them sandboxed frames and files, whose origin is
	// null.
	ForeignPage
)

// Trusted reports whether no foreign page made the request.
func (k PageKind) Trusted() bool { return k != ForeignPage }

// SameSite reports whether the request comes from no page, or from the listener's own.
func (k PageKind) SameSite() bool { return k == NoPage || k == OwnPage }

// PageKind returns the kind of page that made a request. Call CheckHost first: OwnPage means
// that the page has the origin of the Host header.
//
// Without an Origin header, Sec-Fetch-Site reveals a foreign page that loads an image or a
// script. A link that a person follows counts as NoPage.
func (p Policy) PageKind(r *http.Request) PageKind {
	values := r.Header.Values("Origin")
	switch {
	case len(values) == 0:
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && !followedLink(r) {
			return ForeignPage
		}
		return NoPage
	case len(values) > 1:
		return ForeignPage
	}
	o, ok := parseOrigin(values[0])
	switch {
	case !ok:
		return ForeignPage
	case o == ownOrigin(r) || o == p.ownBehindProxy(r):
		return OwnPage
	case (o.scheme == "http" || o.scheme == "https") && Loopback(o.name):
		return LoopbackPage
	}
	for _, pattern := range p.AllowedOrigins {
		if o.matches(pattern) {
			return ConfiguredPage
		}
	}
	return ForeignPage
}

// matches reports whether a value of AllowedOrigins allows the origin.
func (o origin) matches(pattern string) bool {
	if pattern == "*" {
		return true
	}
	scheme, rest, found := strings.Cut(pattern, "://*.")
	if !found {
		want, ok := parseOrigin(pattern)
		return ok && want == o
	}
	want, ok := parseOrigin(scheme + "://" + rest)
	return ok && want.scheme == o.scheme && want.port == o.port && strings.HasSuffix(o.name, "."+want.name)
}

// ForeignOrigin returns the Origin of a request that a foreign page made, fit to be shown.
// It is empty if the request names none.
func (p Policy) ForeignOrigin(r *http.Request) string {
	if values := r.Header.Values("Origin"); len(values) > 0 && p.PageKind(r) == ForeignPage {
		return displayed(strings.Join(values, ", "))
	}
	return ""
}

// CheckSameSite returns why a request is refused, or nil: because of its Host, or because
// a page of another origin made it, even one of this machine.
func (p Policy) CheckSameSite(r *http.Request) error {
	if err := p.CheckHost(r); err != nil {
		return err
	}
	if !p.PageKind(r).SameSite() {
		return fmt.Errorf("%s: only pages of this address may send requests", refusedOrigin(r))
	}
	return nil
}

// CheckTrusted returns why a request is refused, or nil: because of its Host, or because a
// foreign page made it. The listener's own pages, those of this machine and configured
// ones are allowed.
func (p Policy) CheckTrusted(r *http.Request) error {
	if err := p.CheckHost(r); err != nil {
		return err
	}
	if !p.PageKind(r).Trusted() {
		return fmt.Errorf("%s: only pages of this machine and those in TOCSIN_ALLOWED_ORIGINS may send requests", refusedOrigin(r))
	}
	return nil
}

func refusedOrigin(r *http.Request) string {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return "a cross-site request is not allowed"
	}
	return fmt.Sprintf("origin %q is not allowed", displayed(strings.Join(values, ", ")))
}

func followedLink(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// origin is a parsed Origin. The port is always set.
type origin struct {
	scheme string
	host
}

func parseOrigin(text string) (origin, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Opaque != "" ||
		u.Path != "" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(text, "?#") {
		return origin{}, false
	}
	h, ok := parseHost(u.Host)
	return origin{u.Scheme, h.withPort(u.Scheme)}, ok
}

func ownOrigin(r *http.Request) origin {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	h, _ := parseHost(r.Host)
	return origin{scheme, h.withPort(scheme)}
}

// ownBehindProxy is the origin of the listener's own pages if a proxy in front speaks TLS
// with browsers. Only an allowed host can have one, by the name that browsers know.
func (p Policy) ownBehindProxy(r *http.Request) origin {
	h, ok := parseHost(r.Host)
	if !ok || Loopback(h.name) || !p.allowsHost(h) {
		return origin{}
	}
	return origin{"https", h.withPort("https")}
}

func (h host) withPort(scheme string) host {
	switch {
	case h.port != "":
	case scheme == "http":
		h.port = "80"
	case scheme == "https":
		h.port = "443"
	}
	return h
}
