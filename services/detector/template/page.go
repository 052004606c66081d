package template

import "strings"

// anID stands for a segment of a path that is an id.
const anID = ":id"

// Page is AppendPage for callers that want a string.
func Page(rawURL string) string { return string(AppendPage(nil, rawURL)) }

// AppendPage appends the path template of a URL to dst: without scheme, host,
// query and fragment, and with :id for each segment that is a number, a UUID or
// another id; at most MaxLen bytes. A URL that has no path gives /, an opaque
// one such as data: its scheme, and an empty one nothing.
func AppendPage(dst []byte, rawURL string) []byte {
	_, path := split(rawURL)
	return appendPath(dst, path)
}

// AppendTarget is AppendPage with the host, and the port if there is one, in
// front, in all at most MaxLen bytes.
func AppendTarget(dst []byte, rawURL string) []byte {
	host, path := split(rawURL)
	start := len(dst)
	dst = cut(append(dst, host...), start, MaxLen/2)
	return cut(appendPath(dst, path), start, MaxLen)
}

// PathQuery is a URL without scheme, host and fragment: its path and query as
// they stand there.
func PathQuery(rawURL string) string {
	_, path := splitHost(cutAt(rawURL, "#"))
	return path
}

// split takes a URL apart into its host and its path.
func split(rawURL string) (host, path string) {
	return splitHost(cutAt(rawURL[:min(len(rawURL), maxScan)], "?#"))
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
		stem, extension := segment, ""
		if dot := strings.IndexByte(segment, '.'); dot > 0 {
			stem, extension = segment[:dot], segment[dot:]
		}
		if isID(stem) && leading(extension[min(1, len(extension)):], isLetter) == max(len(extension)-1, 0) {
			dst = append(append(dst, anID...), extension...)
		} else {
			dst = append(dst, segment...)
		}
		if !more {
			break
		}
		dst = append(dst, '/')
		path = rest
	}
	return cut(dst, start, MaxLen)
}

// From these lengths on, a segment of letters and digits is an id when it
// changes between the two often, and when it changes at all.
const (
	mixedID    = 12
	mixedTimes = 4
	opaqueID   = 20
)

// isID says whether a segment of a path is an id rather than a name.
func isID(segment string) bool {
	w := measure(segment)
	if w.len == len(segment) {
		return w.digits && (!w.letters || w.hex && w.len >= minHex || w.len >= opaqueID ||
			w.len >= mixedID && w.changes >= mixedTimes)
	}
	if w.len == 8 && w.hex && uuid(segment) == len(segment) {
		return true
	}
	return len(segment) >= mixedID && mixed(segment) >= mixedTimes
}

// mixed counts the changes between letters and digits in a segment in which -
// and _ may stand too; any other character makes it none.
func mixed(segment string) int {
	changes, last := 0, byte(0)
	for i := range len(segment) {
		c := segment[i]
		k := kinds[c] & isWord
		switch {
		case c == '-' || c == '_':
			continue
		case k == 0:
			return 0
		case last != 0 && k != last:
			changes++
		}
		last = k
	}
	return changes
}

// cutAt is the part of u before the first of the stops.
func cutAt(u, stops string) string {
	if i := strings.IndexAny(u, stops); i >= 0 {
		return u[:i]
	}
	return u
}
