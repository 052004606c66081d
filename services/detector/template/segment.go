package template

import "strings"

// anID stands for an id in a path.
const anID = ":id"

// The limits between ids and names such as oauth2, i18n, utf8 and es2015. Each is a number
// of characters: a run of letters and digits with as many or more of a kind is an id.
const (
	pathHex     = 6  // hex digits, one of them decimal; without one, letterHex
	shortHex    = 4  // hex digits, the first of them decimal, as in 1a2b
	manyDigits  = 5  // decimal digits in a row
	manyChanges = 3  // changes between letter and digit, one in four characters or more
	opaqueID    = 20 // characters
	// denseChanges is the number of changes between lower case, upper case and digits from
	// which on a run is random, if there is more than one in two characters.
	denseChanges = 7
)

// appendSegment appends a segment of a path, which contains no slash, with :id for its ids.
// It reads each byte a bounded number of times.
func appendSegment(dst []byte, segment string) []byte {
	if len(segment) < letterHex && leading(segment, isLetter) == len(segment) {
		return append(dst, segment...) // most segments
	}
	token := 0 // end of the last token that was checked
	for i := 0; i < len(segment); {
		rest := segment[i:]
		if i >= token && inToken(rest[0]) {
			n := tokenLen(rest)
			token = i + n
			if p := prefixLen(rest[:n]); dense(rest[p:n]) {
				dst = append(append(dst, rest[:p]...), anID...)
				i = token
				continue
			}
		}
		n, as := next(rest, i == 0)
		dst = append(dst, as...)
		i += n
	}
	return dst
}

// next returns the replacement of the first n bytes of in. first reports whether in is the
// beginning of a segment.
func next(in string, first bool) (n int, as string) {
	word := kinds[in[0]]&isWord != 0
	switch {
	case !word && prefix(in, "%hh") > 0:
		return 3, in[:3] // an escape, not a number
	case !word && !first:
		return 1, in[:1]
	}
	if n = ids(in); n > 0 {
		if first && n < len(in) && (in[n] == '-' || in[n] == '_') && beginsWithNumber(in) {
			n += slug(in[n:])
		}
		return n, anID
	}
	n = max(version(in), leading(in, isWord), 1)
	return n, in[:n]
}

// ids returns the length of the joined ids at the beginning of in.
func ids(in string) int {
	n := idLen(in)
	for n > 0 && n < len(in) && strings.IndexByte("-_.,:", in[n]) >= 0 {
		more := idLen(in[n+1:])
		if more == 0 {
			break
		}
		n += 1 + more
	}
	return n
}

// idLen returns the length of the id at the beginning of in, or 0.
func idLen(in string) int {
	if len(in) > 1 && (in[0] == '-' || in[0] == '+') && kinds[in[1]]&isDigit != 0 {
		if n := idLen(in[1:]); n > 0 {
			return 1 + n
		}
		return 0
	}
	w := measure(in)
	if w.len == 0 {
		return 0
	}
	if n, _ := special(in, w); n > 0 {
		return n
	}
	if w.isID(in[:w.len]) && version(in) == 0 {
		return w.len
	}
	return 0
}

// isID reports whether a run of letters and digits is an id rather than a name.
func (w run) isID(word string) bool {
	switch {
	case !w.letters:
		return true
	case !w.digits:
		return w.hex && w.len >= letterHex
	case w.hex && (w.len >= pathHex || w.len >= shortHex && kinds[word[0]]&isDigit != 0), hasPrefixAt(word, 0, "0x"):
		return true
	default:
		return w.changes >= manyChanges && 4*w.changes >= w.len || w.len >= opaqueID || digitsInARow(word) >= manyDigits
	}
}

func digitsInARow(word string) int {
	most, n := 0, 0
	for i := range len(word) {
		if n++; kinds[word[i]]&isDigit == 0 {
			n = 0
		}
		most = max(most, n)
	}
	return most
}

// version returns the length of a version such as v2, v1.5 or v1beta1, or 0. Versions are
// names, not ids.
func version(in string) int {
	if in[0]|0x20 != 'v' {
		return 0
	}
	n := 1 + leading(in[1:], isDigit)
	if n == 1 || n > 4 {
		return 0
	}
	for _, stage := range [...]string{"alpha", "beta", "rc"} {
		if hasPrefixAt(in, n, stage) {
			n += len(stage)
			n += leading(in[n:], isDigit)
			break
		}
	}
	for n+1 < len(in) && in[n] == '.' && kinds[in[n+1]]&isDigit != 0 {
		n += 1 + leading(in[n+1:], isDigit)
	}
	return ended(in, n)
}

func beginsWithNumber(in string) bool {
	if in[0] == '-' || in[0] == '+' {
		in = in[1:]
	}
	n := leading(in, isDigit)
	return n > 0 && ended(in, n) > 0
}

// slug returns the length of the words joined by dashes at the beginning of in.
func slug(in string) int {
	n := 0
	for n < len(in) && (inToken(in[n]) || in[n] == '%') {
		n++
	}
	return n
}

// inToken reports whether c can be part of a random id in a URL.
func inToken(c byte) bool { return kinds[c]&isWord != 0 || c == '-' || c == '_' }

func tokenLen(in string) int {
	n := 0
	for n < len(in) && inToken(in[n]) {
		n++
	}
	return n
}

// prefixLen returns the length of a lower-case prefix that names the kind of a token, such
// as cus_.
func prefixLen(token string) int {
	n, word := 0, 0
	for i := range len(token) {
		switch c := token[i]; {
		case c >= 'a' && c <= 'z':
			word++
		case word > 1 && (c == '-' || c == '_'):
			n, word = i+1, 0
		default:
			return n
		}
	}
	return n
}

// dense reports whether lower case, upper case and digits are mixed in a token as in random
// text.
func dense(token string) bool {
	const small, capital, digit = 1, 2, 4
	changes, last, all := 0, 0, 0
	for i := range len(token) {
		kind := small
		switch c := token[i]; {
		case c == '-' || c == '_':
			continue
		case c >= '0' && c <= '9':
			kind = digit
		case c >= 'A' && c <= 'Z':
			kind = capital
		}
		if last != 0 && kind != last {
			changes++
		}
		last = kind
		all |= kind
	}
	return all == small|capital|digit && changes >= denseChanges && 2*changes > len(token)
}
