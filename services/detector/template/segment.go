package template

import "strings"

// anID stands for an id in a path.
const anID = ":id"

// The limits between ids and names such as oauth2, i18n, utf8 and es2015. A run of letters
// and digits is an id with so many of these.
const (
	pathHex     = 6  // hex digits, of which one is a number; letterHex when none is
	shortHex    = 4  // hex digits that begin with a number, as 1a2b
	manyDigits  = 5  // digits in a row
	manyChanges = 3  // changes from letter to digit or back, when at least every fourth place is one
	opaqueID    = 20 // letters and digits at all
	// denseChanges is the number of changes between small letters, capitals and digits from
	// which on a run is random, if they are also more than every other place.
	denseChanges = 7
)

// appendSegment appends a segment of a path, which holds no slash, with :id
// for its ids. It looks at each byte a bounded number of times.
func appendSegment(dst []byte, segment string) []byte {
	if len(segment) < letterHex && leading(segment, isLetter) == len(segment) {
		return append(dst, segment...) // most segments
	}
	token := 0 // where the token ends that was looked at
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

// next takes the beginning of in, and returns what replaces it. first reports whether
// it is the beginning of a segment.
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

// ids is the length of the ids that in begins with, which are joined.
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

// idLen is the length of the id that in begins with, or 0.
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

// version returns the length of a version such as v2, v1.5 or v1beta1, or 0: those are
// names, however many digits they have.
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

// slug is how far words go that are joined by dashes.
func slug(in string) int {
	n := 0
	for n < len(in) && (inToken(in[n]) || in[n] == '%') {
		n++
	}
	return n
}

// inToken reports whether c can be in what random ids in URLs are made of.
func inToken(c byte) bool { return kinds[c]&isWord != 0 || c == '-' || c == '_' }

func tokenLen(in string) int {
	n := 0
	for n < len(in) && inToken(in[n]) {
		n++
	}
	return n
}

// prefixLen returns the length of a prefix of small letters that names the kind of a token,
// such as cus_.
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

// dense reports whether small letters, capitals and digits are mixed in a token as if at
// random.
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
