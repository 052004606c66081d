package redact

import (
	"encoding/base64"
	"strings"
)

// afterSpace is where the spaces end that must stand at i, in any encoding.
func afterSpace(s string, i int) (int, bool) {
	const most = 8
	end := i
	for range most {
		switch c := byteAt(s, end); {
		case c == ' ' || c == '\t' || c == '+':
			end++
		case c == '%' && strings.HasPrefix(s[end:], "%20"):
			end += 3
		default:
			return end, end > i
		}
	}
	return end, true
}

// shortestBearer is the shortest token: shorter are words and status codes.
const shortestBearer = 4

// bearer matches the word and the token after it. Prose speaks of bearer
// tokens too: a plain small word after it is not a token.
func bearer(c cursor) hit {
	from, ok := afterSpace(c.text, c.at+len("bearer"))
	if !ok {
		return hit{}
	}
	to := runEnd(c.text, from, classBase64)
	if to == from || isQuote(byteAt(c.text, to)) && c.text[to-1] == '=' {
		return hit{retry: to} // realm="..." is a challenge
	}
	value := strings.TrimRight(c.text[from:to], ".")
	if len(value) < shortestBearer || aboutBearer(value) || !isUpper(c.text[c.at]) && !looksSecret(value) {
		return hit{retry: to}
	}
	return hit{from: from, to: to, text: c.mask}
}

// aboutBearer says that a word belongs to the sentence that "bearer" is in.
func aboutBearer(word string) bool {
	switch strings.ToLower(word) {
	case "token", "tokens", "auth", "authentication", "authorization", "scheme", "realm", "error", "header",
		"headers", "missing", "format", "from", "with", "invalid", "expired", "required", "must", "credentials",
		"prefix", "type", "value", "only", "string", "token-based", "undefined", "null", "none", "found":
		return true
	default:
		return false
	}
}

// looksSecret says that a word is hardly one of a language.
func looksSecret(word string) bool {
	if len(word) >= 16 {
		return true
	}
	if len(word) < 4 {
		return false
	}
	for i := range len(word) {
		if is(word[i], classDigit) || i > 0 && isUpper(word[i]) {
			return true
		}
	}
	return false
}

// basic matches the word and base64 after it, which holds a colon or at least
// looks like nothing else.
func basic(c cursor) hit {
	const shortest, looked = 8, 1024
	from, ok := afterSpace(c.text, c.at+len("basic"))
	if !ok {
		return hit{}
	}
	to := runEnd(c.text, from, classBase64)
	if to-from < shortest {
		return hit{retry: to}
	}
	value := strings.TrimRight(c.text[from:min(to, from+looked)], "=")
	if to-from == len(value) && !strings.ContainsAny(value, "0123456789") {
		raw, _ := base64.RawStdEncoding.DecodeString(value[:len(value)&^3]) // what can be decoded is enough
		if strings.IndexByte(string(raw), ':') < 0 {
			return hit{retry: to}
		}
	}
	return hit{from: from, to: to, text: c.mask}
}

// privateKey matches a PEM block, up to the end of the text where its end is
// cut off.
func privateKey(c cursor) hit {
	const longestLabel = 64
	from := c.at + len("-----BEGIN ")
	label, _, _ := strings.Cut(c.text[from:min(from+longestLabel, len(c.text))], "-----")
	if !strings.Contains(label, "PRIVATE KEY") {
		return hit{}
	}
	to := len(c.text)
	if end := strings.Index(c.text[from:], "-----END "); end >= 0 {
		to = from + end + len("-----END ")
		if dashes := strings.Index(c.text[to:min(to+longestLabel, len(c.text))], "-----"); dashes >= 0 {
			to += dashes + len("-----")
		}
	}
	return hit{from: c.at, to: to, text: c.mask}
}

// urlCredentials matches user:password before the last @ of an authority, and a
// user alone that looks like a token.
func urlCredentials(c cursor) hit {
	from := c.at + 2
	if c.text[c.at+1] == '\\' {
		from++
	}
	colon, at, i := -1, -1, from
loop:
	for ; i < len(c.text); i++ {
		switch c.text[i] {
		case ':':
			if colon < 0 {
				colon = i
			}
		case '@':
			at = i
		case '/', '?', '#', '"', '<', '>', '\\', ' ', '\t', '\r', '\n':
			break loop
		}
	}
	if at < 0 {
		return hit{}
	}
	if colon < 0 || at < colon {
		const shortest = 20
		if at-from < shortest || runEnd(c.text, from, classLetter|classDigit) < at || !strings.ContainsAny(c.text[from:at], "0123456789") {
			return hit{} // names of users have dots, dashes and underscores in them
		}
	}
	return hit{from: from, to: at, text: c.mask}
}
