package otlp

import (
	"net"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// fullURL are the names of the attribute with the whole URL, which clients send.
var fullURL = []string{"url.full", "http.url"}

// address returns the URL of an HTTP request, as far as it is known: servers send it in
// parts, and some only the route.
func address(a pcommon.Map) string {
	if whole := text(a, fullURL...); whole != "" {
		return whole
	}
	path := text(a, "url.path")
	if path != "" {
		if query := text(a, "url.query"); query != "" {
			path += "?" + strings.TrimPrefix(query, "?")
		}
	} else {
		path = text(a, "http.target")
	}
	switch {
	case path == "":
		return text(a, "http.route")
	case !strings.HasPrefix(path, "/"): // http.target may be a whole URL, or *
		return path
	}
	return base(a) + path
}

// base returns scheme://host:port, or "" if the host is unknown.
func base(a pcommon.Map) string {
	scheme := text(a, "url.scheme", "http.scheme")
	if scheme == "" {
		scheme = "http"
	}
	if host := text(a, "server.address", "net.host.name"); host != "" {
		return scheme + "://" + withPort(scheme, host, text(a, "server.port", "net.host.port"))
	}
	if host := text(a, "http.host"); host != "" { // includes the port
		return scheme + "://" + host
	}
	return ""
}

// withPort returns host:port, without the port if it is the scheme's default.
func withPort(scheme, host, port string) string {
	bare := strings.Trim(host, "[]")
	if port == "" || port == "0" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		if strings.Contains(bare, ":") && net.ParseIP(bare) != nil {
			return "[" + bare + "]"
		}
		return host
	}
	return net.JoinHostPort(bare, port)
}
