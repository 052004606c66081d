package redact

import (
	"strconv"
	"strings"
)

// percentDecode undoes one layer of percent-encoding. What is not an escape
// stays as it is; a plus is a plus.
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

// percentEncode is what percentDecode undoes. A mask stays readable.
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

// jsonDecode undoes the JSON escapes of a name, however often the backslash
// was escaped itself. Escapes of control characters become a space.
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

// encoded looks into percent-encoded text: a URL or JSON within a parameter.
// Where masking changes what is inside, it is put back encoded.
func encoded(c cursor) hit {
	if c.nesting >= maxNesting || !is(byteAt(c.text, c.at+1), classHex) || !is(byteAt(c.text, c.at+2), classHex) {
		return hit{}
	}
	const ends = "\"'`&?#;,=<>() \t\r\n\\"
	from, to := c.at, c.at
	for from > c.floor && strings.IndexByte(ends, c.text[from-1]) < 0 {
		from--
	}
	for to < len(c.text) && strings.IndexByte(ends, c.text[to]) < 0 {
		to++
	}
	to = c.engine.tokensEnd(c, from, to)
	inside := percentDecode(c.text[from:to])
	clean := c.engine.scan(inside, modeText, c.nesting+1)
	if clean == inside {
		return hit{retry: to}
	}
	return hit{from: from, to: to, text: percentEncode(clean)}
}
