package redact

import (
	"encoding/base64"
	"strings"
)

// afterSpace returns where the spaces at i end, in any encoding, and whether there are any.
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

// shortestBearer is the shortest token; shorter texts are words and status codes.
const shortestBearer = 4

// bearer matches the word bearer and the token after it. A plain word in lower case after it is not a
// token: prose mentions bearer tokens too.
func bearer(c cursor) hit {
	from, ok := afterSpace(c.text, c.pos+len("bearer"))
	if !ok {
		return hit{}
	}
	to := runEnd(c.text, from, classBase64)
	if to == from || isQuote(byteAt(c.text, to)) && c.text[to-1] == '=' {
		return hit{retry: to} // realm="..." is a challenge
	}
	value := strings.TrimRight(c.text[from:to], ".")
	if len(value) < shortestBearer || aboutBearer(value) || !isUpper(c.text[c.pos]) && !looksSecret(value) {
		return hit{retry: to}
	}
	return hit{from: from, to: to, text: c.mask}
}

// aboutBearer reports whether a word belongs to the sentence that "bearer" is in.
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

// looksSecret reports whether a text is unlikely to be a word of a language.
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

// basic matches the word basic and base64 after it, which has a colon when decoded or can hardly be
// anything else.
func basic(c cursor) hit {
	const shortest, looked = 8, 1024
	from, ok := afterSpace(c.text, c.pos+len("basic"))
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

// keyLabel returns the label of the PEM line whose dashes end at from, and where it ends.
func keyLabel(s string, from int) (string, int) {
	const longest = 96
	label, _, ok := strings.Cut(s[from:min(from+longest, len(s))], "-----")
	end := from + len(label)
	if ok {
		end += len("-----")
		if more := runEndOf(s, end, '-'); more-end < len("-----") {
			end = more
		}
	}
	if !strings.Contains(label, "KEY") {
		return label, end // no key: spaces matter not
	}
	return labelSpaces.Replace(label), end
}

// labelSpaces writes the spaces of a label in any encoding as spaces.
var labelSpaces = strings.NewReplacer("+", " ", "%20", " ", "_", " ")

func isKeyLabel(label string) bool {
	return strings.Contains(label, "PRIVATE KEY") || strings.Contains(label, "NKEY SEED")
}

// privateKey matches a PEM block, or up to the end of the text where it is truncated.
func privateKey(c cursor) hit {
	const begin, end = len("-----BEGIN"), "-----END"
	if label, _ := keyLabel(c.text, c.pos+begin); !isKeyLabel(label) {
		return hit{}
	}
	to := len(c.text)
	if i := strings.Index(c.text[c.pos+begin:], end); i >= 0 {
		_, to = keyLabel(c.text, c.pos+begin+i+len(end))
	}
	return hit{from: c.pos, to: to, text: c.mask}
}

// privateKeyEnd matches the last lines of a PEM block whose beginning is missing.
func privateKeyEnd(c cursor) hit {
	const longest = 16 << 10
	label, to := keyLabel(c.text, c.pos+len("-----END"))
	if !isKeyLabel(label) || c.text[to-1] != '-' {
		return hit{}
	}
	s, from := c.text, c.pos
	for from > c.floor && c.pos-from < longest {
		end := breakBefore(s, from)
		start := end
		for start > c.floor && (isAlnum(s[start-1]) || strings.IndexByte("+/=", s[start-1]) >= 0) {
			start--
		}
		if escaped := start < end && byteAt(s, start-1) == '\\'; escaped {
			start++ // the n of an escaped line end is none of the line
		}
		if start >= end {
			break
		}
		before := breakBefore(s, start)
		if before == start && start > c.floor && !isQuote(byteAt(s, start-1)) && !is(byteAt(s, start-1), classSpace) {
			break
		}
		from = start
		if before == start {
			break
		}
	}
	const shortest = 16
	if c.pos-from < shortest {
		return hit{}
	}
	return hit{from: from, to: to, text: c.mask}
}

// breakBefore returns where the line break begins that ends at i, or i.
func breakBefore(s string, i int) int {
	for i > 0 && (s[i-1] == '\n' || s[i-1] == '\r') {
		i--
	}
	for i > 1 && (s[i-1] == 'n' || s[i-1] == 'r') && s[i-2] == '\\' {
		for i--; i > 0 && s[i-1] == '\\'; {
			i--
		}
	}
	return i
}

// encodedKey matches a PEM block in base64.
func encodedKey(c cursor) hit {
	const looked = 96
	to := runEnd(c.text, c.pos, classBase64)
	head := c.text[c.pos:min(to, c.pos+looked)]
	raw, _ := base64.RawStdEncoding.DecodeString(head[:len(head)&^3])
	if !isKeyLabel(string(raw)) {
		return hit{retry: to}
	}
	return hit{from: c.pos, to: to, text: c.mask}
}

// urlCredentials matches user:password before the @ that ends them, and a user alone that looks like
// a token. Passwords may extend beyond the end of the authority: people and programs forget to
// encode / ? # and quotes.
func urlCredentials(c cursor) hit {
	s, from := c.text, c.pos+2
	if s[c.pos+1] == '\\' {
		from++
	}
	colon, at, i := -1, -1, from
loop:
	for ; i < len(s); i++ {
		switch s[i] {
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
	if colon >= 0 && (at < 0 || colon < at) && i < len(s) && strings.IndexByte("/?#\"\\", s[i]) >= 0 {
		if far, retry := c.farAt(from, colon, at, i); far > 0 {
			return hit{from: from, to: far, text: c.mask}
		} else if at < 0 {
			return hit{retry: retry}
		}
	}
	if at < 0 {
		return hit{}
	}
	if colon < 0 || at < colon {
		const shortest = 20
		if at-from < shortest || runEnd(s, from, classLetter|classDigit) < at || !strings.ContainsAny(s[from:at], "0123456789") {
			return hit{} // names of users have dots, dashes and underscores in them
		}
	}
	return hit{from: from, to: at, text: c.mask}
}

// farAt returns the position of the @ that ends a password that contains characters that would
// end an authority; stop is the first of these. It returns 0 where the text before stop is not a
// user and the beginning of a password, or no host follows. at is the last @ before stop, or
// negative. Where there is no @, retry is where the rule is worth trying again.
func (c cursor) farAt(from, colon, at, stop int) (far, retry int) {
	const longest, longestPort = 512, 5
	s := c.text
	for i := from; i < colon; i++ {
		if !is(s[i], classBase64) && s[i] != '%' {
			return 0, 0
		}
	}
	if colon-from == 1 && stop == colon+1 && s[stop] == '\\' {
		return 0, 0 // the drive of a file
	}
	plain := at < 0 // no @ so far
	if !plain && isHost(s, at+1) {
		return 0, 0
	}
	if plain {
		if port := stop - colon - 1; port > 0 && port <= longestPort && runEnd(s, colon+1, classDigit) == stop {
			return 0, 0
		}
	}
	i := stop
	for ; i < len(s) && i-stop < longest; i++ {
		b := s[i]
		switch {
		case b == '@':
			if retry = i; isHost(s, i+1) || plain && !c.web() && isAlnum(byteAt(s, i+1)) {
				far = i
			}
			continue
		case is(b, classSpace), b == '<', b == '>', b == '`':
		case b == '"' || b == '\\':
			end := runEndOf(s, i, '\\')
			switch next := byteAt(s, end); {
			case (next == '"' || next == '/') && isAlnum(s[i-1]) && isAlnum(byteAt(s, end+1)):
				i = end
				continue
			case b == '\\' && next == '@', b == '\\' && isAlnum(next) && strings.IndexByte("nrtu", next) < 0:
				i = end - 1 // of the password: n, r, t and u are more likely an escape
				continue
			}
		default:
			continue
		}
		break
	}
	if retry == 0 {
		retry = i
	} else if far == 0 {
		retry = 0
	}
	return far, retry
}

// web reports whether the // at the cursor follows a scheme of the web, or none.
// The address of such a scheme has paths and queries with an @ in them.
func (c cursor) web() bool {
	before := strings.ToLower(c.text[max(0, c.pos-len("https:")):c.pos])
	if !strings.HasSuffix(before, ":") || len(before) < 2 || !isAlnum(before[len(before)-2]) {
		return true
	}
	for _, scheme := range []string{"http:", "https:", "ws:", "wss:", "ftp:"} {
		if strings.HasSuffix(before, scheme) {
			return true
		}
	}
	return false
}

// isHost reports whether the text at i can only be a host: with a dot in it or a port after it.
func isHost(s string, i int) bool {
	const longest = 253
	end := i
	for end < len(s) && end-i < longest && (isAlnum(s[end]) || s[end] == '-' || s[end] == '.') {
		end++
	}
	host := s[i:end]
	return end > i && isAlnum(host[0]) && (host == "localhost" || strings.Contains(strings.TrimRight(host, "."), ".") || byteAt(s, end) == ':' && is(byteAt(s, end+1), classDigit))
}

// driverCredentials matches user:password before @tcp( and @unix(, which Go's
// MySQL driver has, and user/password before @//, which Oracle has.
func driverCredentials(c cursor) hit {
	const longest = 256
	s, sep := c.text, byte(':')
	if s[c.pos+1] == '/' {
		sep = '/'
	}
	from := c.pos
	for from > c.floor && c.pos-from < longest && !is(s[from-1], classSpace) && !isQuote(s[from-1]) && strings.IndexByte("(,;<>[{", s[from-1]) < 0 {
		if from--; s[from] == '/' && s[from+1] == '/' {
			return hit{} // a URL
		}
	}
	text := s[from:c.pos]
	if i := strings.LastIndexAny(text, "="); i >= 0 && strings.IndexByte(text[:i], sep) < 0 {
		text = text[i+1:]
	}
	if i := strings.LastIndex(text, ":"); sep == '/' && i >= 0 {
		text = text[i+1:] // jdbc:oracle:thin:
	}
	i := strings.IndexByte(text, sep)
	if i <= 0 || i+1 == len(text) || strings.HasPrefix(text, "[REDACTED") {
		return hit{}
	}
	return hit{from: c.pos - len(text), to: c.pos, text: c.mask}
}
