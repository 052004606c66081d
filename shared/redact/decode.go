package redact

import (
	"strconv"
	"strings"
)

// percentDecode decodes one layer of percent-encoding. Invalid escapes and plus signs stay.
func percentDecode(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && is(byteAt(s, i+1), classHex) && is(byteAt(s, i+2), classHex) {
			out = append(out, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

// percentEncode is the inverse of percentDecode. Masks stay readable.
func percentEncode(s string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(s) {
		if c := s[i]; isAlnum(c) || strings.IndexByte("-_.~[]:+", c) >= 0 {
			out.WriteByte(c)
		} else {
			out.WriteByte('%')
			out.WriteByte(hex[c>>4])
			out.WriteByte(hex[c&15])
		}
	}
	return out.String()
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// jsonDecode decodes the JSON escapes of a name, at any depth of escaping. Escapes of control
// characters become a space.
func jsonDecode(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out.WriteByte(s[i])
			continue
		}
		for byteAt(s, i+1) == '\\' {
			i++
		}
		i++
		switch c := byteAt(s, i); c {
		case 'u':
			if i+5 > len(s) {
				continue
			}
			if r, err := strconv.ParseUint(s[i+1:i+5], 16, 16); err == nil {
				out.WriteRune(rune(r))
				i += 4
			}
		case 'n', 'r', 't', 'b', 'f', 0:
			out.WriteByte(' ')
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// encoded masks percent-encoded text: a URL or JSON within a parameter, or the words of a form.
// Where masking changes the decoded text, it is encoded again.
func encoded(c cursor) hit {
	const ends = "\"'`&?#;,=<>() \t\r\n\\"
	plus := c.text[c.pos] == '+'
	if c.nesting >= maxNesting || plus && c.mode == modeText || !plus && (!is(byteAt(c.text, c.pos+1), classHex) || !is(byteAt(c.text, c.pos+2), classHex)) {
		return hit{}
	}
	from, to, near := c.pos, c.pos, -1
	for from > c.floor && strings.IndexByte(ends, c.text[from-1]) < 0 {
		if from--; c.text[from] == '/' && near < 0 {
			near = from + 1
		}
	}
	for to < len(c.text) && strings.IndexByte(ends, c.text[to]) < 0 {
		to++
	}
	if c.holdsHeader(max(near, from), to) {
		to += strings.IndexAny(c.text[to:]+"&", "&# \t\r\n\"<>")
	}
	to = c.engine.tokensEnd(c, from, to)
	for _, from := range [...]int{near, from} { // what is encoded in a path begins with its segment
		if from < 0 {
			continue
		}
		if clean, changed := c.decoded(c.text[from:to]); changed {
			return hit{from: from, to: to, text: clean}
		}
	}
	return hit{retry: to}
}

// decoded masks the secrets in percent-encoded text, and reports whether there
// were any. Forms have a plus for a space, others for itself.
func (c cursor) decoded(text string) (string, bool) {
	if strings.IndexByte(text, '+') >= 0 {
		inside := percentDecode(strings.ReplaceAll(text, "+", " "))
		if clean := c.engine.scan(inside, modeText, c.nesting+1); clean != inside {
			return strings.ReplaceAll(percentEncode(clean), "%20", "+"), true
		}
	}
	if strings.IndexByte(text, '%') < 0 {
		return text, false
	}
	inside := percentDecode(text)
	if clean := c.engine.scan(inside, modeText, c.nesting+1); clean != inside {
		return percentEncode(clean), true
	}
	return text, false
}

// holdsHeader reports whether the percent-encoded text up to to is a sensitive header up to a
// separator within its value, as in Cookie:%20sid=abc.
func (c cursor) holdsHeader(from, to int) bool {
	if to >= len(c.text) || strings.IndexByte("=;,", c.text[to]) < 0 || to-from > maxName {
		return false
	}
	name, _, ok := strings.Cut(percentDecode(c.text[from:to]), ":")
	if !ok {
		return false
	}
	g, last := c.engine.names.grade(name[strings.LastIndexAny(name, " +\n")+1:])
	return g == strong && last
}
