package template

import "unicode/utf8"

// The kinds of bytes. Every byte of a character beyond ASCII counts as a letter, so no
// character is split.
const (
	isDigit byte = 1 << iota
	isHexLetter
	isLetter // also set where isHexLetter is
	isSpace
	isDouble
	isSingle
	isBack
	endsURL

	isHex   = isDigit | isHexLetter
	isWord  = isDigit | isLetter
	isQuote = isDouble | isSingle | isBack
)

var kinds = func() (table [256]byte) {
	for c := range table {
		switch {
		case c >= '0' && c <= '9':
			table[c] = isDigit
		case c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			table[c] = isHexLetter | isLetter
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= 0x80:
			table[c] = isLetter
		case c <= ' ' || c == 0x7f:
			table[c] = isSpace
		}
	}
	table['"'], table['\''], table['`'] = isDouble, isSingle, isBack
	for _, c := range []byte("<>()[]{},|") {
		table[c] = endsURL
	}
	return table
}()

// run describes a run of letters and digits.
type run struct {
	len             int
	digits, letters bool // at least one
	hex             bool // hex digits only
	changes         int  // changes between letter and digit
}

// measure describes the run at the beginning of in.
func measure(in string) run {
	w := run{}
	var all, last byte
	for w.len < len(in) {
		k := kinds[in[w.len]] & isWord
		if k == 0 {
			break
		}
		if k != last && last != 0 {
			w.changes++
		}
		last = k
		all |= kinds[in[w.len]] & (isWord | isHexLetter)
		if kinds[in[w.len]]&isHex == 0 {
			all |= notHex
		}
		w.len++
	}
	w.digits, w.letters, w.hex = all&isDigit != 0, all&isLetter != 0, all&notHex == 0
	return w
}

// notHex is the bit that measure sets for a letter that is no hex digit.
const notHex = isSpace

// leading returns how many bytes at the beginning of in are of one of the kinds in mask.
func leading(in string, mask byte) int {
	n := 0
	for n < len(in) && kinds[in[n]]&mask != 0 {
		n++
	}
	return n
}

func hasPrefixAt(in string, at int, prefix string) bool {
	return len(in)-at >= len(prefix) && in[at:at+len(prefix)] == prefix
}

// cut shortens buf to at most most bytes after start, without splitting a character.
func cut(buf []byte, start, most int) []byte {
	if len(buf)-start <= most {
		return buf
	}
	end := start + most
	for end > start && !utf8.RuneStart(buf[end]) {
		end--
	}
	return buf[:end]
}
