package junit

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// clean replaces the control characters that XML forbids by control pictures, and invalid
// UTF-8 by U+FFFD. Reports quote the output of tests, and many producers do not escape the
// control characters in it (mostly colours), or write references, which XML forbids too.
// Without any, clean returns data itself.
func clean(data []byte) []byte {
	if utf8.Valid(data) && !bytes.ContainsFunc(data, forbidden) && !bytes.Contains(data, []byte("&#")) {
		return data
	}
	out := make([]byte, 0, len(data)+len(data)/8)
	for len(data) > 0 {
		if n, r := reference(data); n > 0 && forbidden(r) {
			out = utf8.AppendRune(out, visible(r))
			data = data[n:]
			continue
		}
		r, n := utf8.DecodeRune(data)
		if forbidden(r) {
			r = visible(r)
		}
		out = utf8.AppendRune(out, r) // invalid UTF-8 becomes U+FFFD
		data = data[n:]
	}
	return out
}

func forbidden(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\ufffe' || r == '\uffff' || r >= 0xd800 && r < 0xe000
}

// visible returns the control picture of a control character.
func visible(r rune) rune {
	if r >= 0 && r < ' ' {
		return '\u2400' + r
	}
	return utf8.RuneError
}

// reference returns the length and the value of the character reference at the start of
// data. The length is 0 if there is none.
func reference(data []byte) (n int, r rune) {
	if !bytes.HasPrefix(data, []byte("&#")) {
		return 0, 0
	}
	end := bytes.IndexByte(data[:min(len(data), 12)], ';')
	if end < 0 {
		return 0, 0
	}
	digits, base := string(data[2:end]), 10
	if hex, ok := strings.CutPrefix(digits, "x"); ok {
		digits, base = hex, 16
	}
	v, err := strconv.ParseUint(digits, base, 31)
	if err != nil {
		return 0, 0
	}
	return end + 1, rune(v)
}
