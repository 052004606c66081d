// Package httpguard decides, from an HTTP request alone, whether a listener may answer it:
// by Host, against DNS rebinding; by Origin, against pages of other sites; by token, proxy
// or sign-in, against other machines. See docs/security.md.
//
// It keeps no state, writes no answer and knows no path: package httpserve does.
package httpguard

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Policy lists the hosts and origins that are allowed. Those of loopback always are.
type Policy struct {
	// AllowedHosts are values of Host: a name or an address, which allows every port, or
	// one of them with a port. There are no wildcards.
	AllowedHosts []string
	// AllowedOrigins are values of Origin, such as https://app.example, or patterns:
	// https://*.example.com for every host below example.com, and * for every origin but
	// null.
	AllowedOrigins []string
}

// maxShown is how many characters of a refused value an error repeats.
const maxShown = 100

// maxHost is the longest Host that is parsed: a DNS name and a port.
const maxHost = 253 + len(":65535")

// CheckHost returns why the Host of a request is refused, or nil. Without this check, a
// page could point a name of its own at this machine and read what is served.
func (p Policy) CheckHost(r *http.Request) error {
	got, ok := parseHost(r.Host)
	if ok && (Loopback(got.name) || p.allowsHost(got)) {
		return nil
	}
	return fmt.Errorf("host %q is not allowed: only loopback names, such as localhost and 127.0.0.1, and those in TOCSIN_ALLOWED_HOSTS are", displayed(r.Host))
}

func (p Policy) allowsHost(got host) bool {
	for _, text := range p.AllowedHosts {
		// An IPv6 address without brackets, as Kubernetes passes it.
		if addr, err := netip.ParseAddr(text); err == nil && addr.Is6() {
			text = "[" + text + "]"
		}
		want, ok := parseHost(text)
		if ok && want.name == got.name && (want.port == "" || want.port == got.port) {
			return true
		}
	}
	return false
}

// Loopback reports whether a host, without a port, can only be this machine: localhost, a
// name below it, 127.0.0.0/8 or ::1. Short forms of addresses, such as 127.1, do not count
// as addresses.
func Loopback(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// host is a parsed Host: the name in lower case without the trailing dot, or an address
// without brackets in its shortest form, and the port or nothing.
type host struct{ name, port string }

// parseHost parses a Host header. ok is false if it is malformed.
func parseHost(text string) (h host, ok bool) {
	if text == "" || len(text) > maxHost {
		return host{}, false
	}
	name, port := text, ""
	switch {
	case strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"):
		name = text[1 : len(text)-1]
	case strings.HasPrefix(text, "[") || strings.Contains(text, ":"):
		var err error
		// An empty port counts as none.
		if name, port, err = net.SplitHostPort(text); err != nil || port != "" && !isPort(port) {
			return host{}, false
		}
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		bracketed := strings.HasPrefix(text, "[")
		if bracketed != addr.Is6() || addr.Zone() != "" {
			return host{}, false
		}
		return host{addr.Unmap().String(), port}, true
	}
	if strings.HasPrefix(text, "[") {
		return host{}, false
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return host{name, port}, isName(name)
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// isName reports whether a name in lower case consists of labels. Docker Compose uses
// underscores in names, so they are allowed.
func isName(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

func displayed(value string) string { return sanitize.Cut(sanitize.Visible(value), maxShown) }
