package redact

import "strings"

// URL masks the secrets in a URL: user and password, query parameters,
// parameters in the fragment, and tokens in the path. A value that does not
// look like a URL is masked as text; one with white space as both, because text may follow a
// URL.
func (e *Engine) URL(s string) string {
	for range maxRounds {
		masked, link := s, e.isLink(s)
		if link {
			masked = e.clean(masked, modeURL)
		}
		if !link || strings.ContainsAny(masked, " \t\r\n") {
			masked = e.clean(masked, modeText)
		}
		if masked == s {
			return s
		}
		s = masked
	}
	return Mask
}

// isLink reports whether a text looks like a URL or a part of one: it begins with a scheme
// and //, a path, a query, a fragment, or a host.
func (e *Engine) isLink(s string) bool {
	if s == "" || strings.IndexByte("/?#", s[0]) >= 0 {
		return true
	}
	end := 0
	for end < len(s) && (is(s[end], classToken) || strings.IndexByte(".~+", s[end]) >= 0 || s[end] >= 0x80) {
		end++
	}
	host := s[:end]
	if end == 0 || strings.HasPrefix(s[end:], "://") {
		return end > 0
	}
	if byteAt(s, end) == ':' {
		const longestPort = 5
		port := runEnd(s, end+1, classDigit) - end - 1
		if port == 0 || port > longestPort {
			return false
		}
		if g, _ := e.names.grade(host); g == strong { // password:12345
			return false
		}
		end += 1 + port
	}
	return end == len(s) || strings.IndexByte("/?#", s[end]) >= 0
}
