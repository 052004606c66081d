package redact

// class is a set of byte classes.
type class uint16

const (
	classLetter class = 1 << iota
	classDigit
	classUpperDigit // A-Z and 0-9
	classHex        // 0-9, a-f and A-F
	classToken      // base64url: letters, digits, _ and -
	classBase64     // both base64 alphabets, with padding, and . and ~
	className       // characters of an unquoted field name
	classSpace
	classCommandEnd // ends a command on a line
	classCurlFlag   // one-letter curl flags that may precede u in a combined flag (-sSu)
	classPlainEnd   // may end a value without quotes
	classShortEnd   // ends a short value without quotes
	classLabel      // characters of the label of a field
)

var classes = classify()

func classify() (table [256]class) {
	for b := range table {
		c := byte(b)
		upper, lower := c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z'
		digit := c >= '0' && c <= '9'
		if upper || lower {
			table[b] |= classLetter
		}
		if digit {
			table[b] |= classDigit
		}
		if upper || digit {
			table[b] |= classUpperDigit
		}
		if digit || c|0x20 >= 'a' && c|0x20 <= 'f' {
			table[b] |= classHex
		}
		if upper || lower || digit {
			table[b] |= classToken | classBase64 | className | classLabel
		}
	}
	add := func(chars string, c class) {
		for i := range len(chars) {
			table[chars[i]] |= c
		}
	}
	add("_-", classToken)
	add("_-+/=.~", classBase64)
	add(`_-.[]%$\`, className)
	add(" \t\r\n", classSpace|classPlainEnd|classShortEnd)
	add(",;&}{)]<>\"'\\", classShortEnd)
	add("_-./", classLabel)
	add("\n\r|;&", classCommandEnd)
	add(curlFlags, classCurlFlag)
	add("&#\"<>`\\',;)}]|", classPlainEnd)
	return table
}

func is(b byte, c class) bool  { return classes[b]&c != 0 }
func isLetter(b byte) bool     { return is(b, classLetter) }
func isAlnum(b byte) bool      { return is(b, classLetter|classDigit) }
func isQuote(b byte) bool      { return b == '"' || b == '\'' || b == '`' }
func isUpper(b byte) bool      { return b >= 'A' && b <= 'Z' }
func digitOrUpper(b byte) bool { return is(b, classUpperDigit) }
func byteAt(s string, i int) byte {
	if i < 0 || i >= len(s) {
		return 0
	}
	return s[i]
}

// runEnd returns where the run of bytes of class c that begins at i ends.
func runEnd(s string, i int, c class) int {
	for i < len(s) && is(s[i], c) {
		i++
	}
	return i
}

// wordStart reports whether a word begins at i, which is not within a longer one. The letters of an
// escape (%20, \n, \u0026) are no word.
func wordStart(s string, i int) bool {
	if i == 0 || !isAlnum(s[i-1]) {
		return true
	}
	if i >= 2 && s[i-2] == '\\' && s[i-1] != 'u' {
		return true
	}
	if i >= 6 && s[i-6] == '\\' && s[i-5] == 'u' && runEnd(s[i-4:i], 0, classHex) == 4 {
		return true
	}
	return i >= 3 && s[i-3] == '%' && is(s[i-2], classHex) && is(s[i-1], classHex)
}
