package logtemplate

import "bytes"

// token is a word of a line or template, with the punctuation and spaces before it;
// only the first has none, and the last may be nothing else.
type token struct {
	start, word, end uint16 // where in the text it begins, the word in it does, and it ends
	hash             uint64 // of all of it
	// firm reports whether the word has letters of its own, varies that another may stand in
	// its place.
	firm, varies bool
	// hole reports whether it is of a template, and the word varies.
	hole bool
}

// Line is a line that is looked up. The zero value is ready for Cut, which can be
// called again and again.
type Line struct {
	text   []byte
	n      int
	tokens [MaxTokens]token
}

// Cut takes a line apart into its words, and reports whether it has as many as lines with
// templates have. What is too much is one word that does not vary. The line keeps the
// text.
func (l *Line) Cut(text []byte) bool {
	l.text, l.n = text, 0
	if len(text) > 1<<16-1 || bytes.IndexByte(text, Hole) >= 0 || bytes.IndexByte(text, List) >= 0 {
		return false
	}
	for begin := 0; begin < len(text); l.n++ {
		if l.n == MaxTokens-1 {
			l.tokens[l.n] = token{start: uint16(begin), word: uint16(len(text)), end: uint16(len(text)), hash: hash(seed, text[begin:])}
			l.n++
			break
		}
		t := &l.tokens[l.n]
		begin = t.measure(text, begin)
		if l.n > 0 && assigns(text[t.start:t.word], text[t.word:t.end]) {
			l.tokens[l.n-1].varies = false
		}
	}
	return l.n >= MinTokens
}

// measure makes of t the token of a text that begins there, and returns its end.
func (t *token) measure(text []byte, begin int) (end int) {
	h, i := seed, begin
	for i < len(text) && kinds[text[i]] == 0 {
		h = (h ^ uint64(text[i])) * prime
		i++
	}
	*t = token{start: uint16(begin), word: uint16(i)}
	var all byte
	for i < len(text) && kinds[text[i]] != 0 {
		c := text[i]
		if c == '<' {
			if n := placeholder(text[i:]); n > 0 {
				all |= isDigit
				h = hash(h, text[i:i+n])
				i += n
				continue
			}
		}
		all |= kinds[c]
		h = (h ^ uint64(c)) * prime
		i++
	}
	t.end, t.hash = uint16(i), h
	t.firm, t.varies = all&isLetter != 0, all&(isLetter|isDigit) != 0
	return i
}

// assigns reports whether what stands between two words makes the first the name of the
// second, as in user=alice, key:value and https://host, but not "alice: hello" and
// host:80.
func assigns(between, second []byte) bool {
	if len(between) == 0 || len(second) == 0 {
		return false
	}
	switch between[0] {
	case '=':
		return true
	case ':':
		return between[len(between)-1] != ' ' && second[0] != '<'
	}
	return false
}

// placeholder is the length of the placeholder of package template that a text begins
// with, or 0.
func placeholder(text []byte) int {
	for _, p := range placeholders {
		if len(text) >= len(p) && string(text[:len(p)]) == p {
			return len(p)
		}
	}
	return 0
}

var placeholders = [...]string{"<n>", "<str>", "<id>", "<time>", "<ip>"}

// between is what stands before the word.
func (t *token) between(text string) string { return text[t.start:t.word] }

// fits reports whether one template can stand for two words in the same place.
func fits(a string, of *token, b string, other *token) bool {
	return of.varies && other.varies && of.between(a) == other.between(b)
}

// places are where the words stand by which leaves are found: the first two, and the
// last.
func places(n int) [3]int { return [3]int{0, 1, n - 1} }

// leavesOf are the leaves for a line or template with these words.
func leavesOf(tokens []token) (all [3]leaf) {
	for i, place := range places(len(tokens)) {
		all[i] = leafOf(len(tokens), i, tokens[place].hash)
	}
	return all
}

// allLeaves are those, and the one for a template with a list.
func allLeaves(tokens []token) [4]leaf {
	all := leavesOf(tokens)
	return [4]leaf{all[0], all[1], all[2], listLeaf(tokens)}
}

// listLeaf is the leaf for a template with a list: that of the first word.
func listLeaf(tokens []token) leaf { return leafOf(0, 0, tokens[0].hash) }

// The kinds of bytes. All others are punctuation or space.
const (
	isLetter byte = 1 << iota
	isDigit
	inWord // neither, and yet no punctuation between words
)

var kinds = func() (table [256]byte) {
	for c := range table {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= 0x80:
			table[c] = isLetter
		case c >= '0' && c <= '9':
			table[c] = isDigit
		}
	}
	for _, c := range []byte("_-<>%+*~^") {
		table[c] = inWord
	}
	return table
}()

// seed and prime are those of FNV-1a.
const (
	seed  = uint64(14695981039346656037)
	prime = uint64(1099511628211)
)

func hash(h uint64, text []byte) uint64 {
	for _, c := range text {
		h = (h ^ uint64(c)) * prime
	}
	return h
}
