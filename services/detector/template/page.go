package template

import "strings"

// Page is AppendPage for callers that want a string.
func Page(rawURL string) string { return string(AppendPage(nil, rawURL)) }

// AppendPage appends the path template of a URL to dst: without scheme, host, query and
// fragment, and with :id for each id in its segments; at most MaxLen bytes. The template of
// a URL without a path is /, that of an opaque URL such as data: is the scheme, and that of
// an empty one is empty.
//
// Only the part of a segment that is an id is replaced: user-42 is user-:id, and
// app-8f3c2a1b.js is app-:id.js. Joined ids are one id: 2026-01-28 is :id and INV-2024-0001
// is INV-:id. A number followed by words, as in 123-red-shoes, is one id, because the words
// repeat what the number identifies.
func AppendPage(dst []byte, rawURL string) []byte {
	_, path := split(rawURL)
	return appendPath(dst, path)
}

// AppendTarget is AppendPage with the host and port in front, in all at most MaxLen bytes.
func AppendTarget(dst []byte, rawURL string) []byte {
	host, path := split(rawURL)
	start := len(dst)
	dst = cut(append(dst, host...), start, MaxLen/2)
	return cut(appendPath(dst, path), start, MaxLen)
}

// PathQuery returns a URL without scheme, host and fragment.
func PathQuery(rawURL string) string {
	_, path := splitHost(cutAt(rawURL, "#"))
	return path
}

// split returns the host and the path of a URL.
func split(rawURL string) (host, path string) {
	u := cutAt(rawURL[:min(len(rawURL), maxScan)], "?#")
	if u == "" && rawURL != "" {
		return "", "/" // nothing but a query or a fragment
	}
	return splitHost(u)
}

func splitHost(u string) (host, rest string) {
	if u == "" || u[0] == '/' && !strings.HasPrefix(u, "//") {
		return "", u
	}
	scheme := strings.IndexByte(u, ':')
	switch slashes := strings.Index(u, "//"); {
	case slashes >= 0 && slashes == scheme+1:
		u = u[slashes+2:]
	case scheme > 0 && leading(u, isLetter) == scheme && !(scheme+1 < len(u) && kinds[u[scheme+1]]&isDigit != 0):
		return "", u[:scheme+1] // opaque, as in data:image/png
	case scheme < 0:
		return "", u // relative
	}
	slash := strings.IndexAny(u, "/?")
	if slash < 0 {
		slash = len(u)
	}
	host, rest = u[:slash], u[slash:]
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		host = host[at+1:]
	}
	if rest == "" || rest[0] == '?' {
		rest = "/" + rest
	}
	return host, rest
}

func appendPath(dst []byte, path string) []byte {
	start := len(dst)
	for len(dst)-start < MaxLen {
		segment, rest, more := strings.Cut(path, "/")
		dst = appendSegment(dst, segment)
		if !more {
			break
		}
		dst = append(dst, '/')
		path = rest
	}
	return cut(dst, start, MaxLen)
}

// cutAt returns the part of u before the first of the stops.
func cutAt(u, stops string) string {
	if i := strings.IndexAny(u, stops); i >= 0 {
		return u[:i]
	}
	return u
}
