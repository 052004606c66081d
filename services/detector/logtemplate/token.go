package logtemplate

import "bytes"

// token is a word of a line or template, with the punctuation and spaces before it. Only
// the first token may have none before, and only the last may have no word.
type token struct {
	start, word, end uint16 // indexes in the text: of the token, of its word, of its end
	hash             uint64 // of the whole token
	// firm reports whether the word has letters that are not part of a placeholder, and
	// varies whether another word may replace it.
	firm, varies bool
	// hole reports whether the token belongs to a template and its word varies.
	hole bool
}

// Line is a line split into words, for matching. The zero value is ready for Cut, which can
// be called again and again.
type Line struct {
	text   []byte
	n      int
	tokens [MaxTokens]token
}

// Cut splits a text into its words, and reports whether it has enough of them for a
// template. From MaxTokens on the rest is one word that does not vary. The line keeps the
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

// measure sets t to the token of a text that starts at begin, and returns its end.
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

// assigns reports whether the punctuation between two words makes the first the name of the
// second, as in user=alice, key:value and https://host, but not "alice: hello" and host:80.
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

// placeholder returns the length of the placeholder of package template at the beginning of
// a text, or 0.
func placeholder(text []byte) int {
	for _, p := range placeholders {
		if len(text) >= len(p) && string(text[:len(p)]) == p {
			return len(p)
		}
	}
	return 0
}

var placeholders = [...]string{"<n>", "<str>", "<id>", "<time>", "<ip>"}

// between returns the punctuation and spaces before the word.
func (t *token) between(text string) string { return text[t.start:t.word] }

// fits reports whether a hole can replace both tokens, which belong to the texts a and b.
func fits(a string, token *token, b string, other *token) bool {
	return token.varies && other.varies && token.between(a) == other.between(b)
}

// keyWords returns the indexes of the words by which leaves are found: the first two and the
// last of n.
func keyWords(n int) [3]int { return [3]int{0, 1, n - 1} }

// leavesOf returns the leaves for a line or template with these words.
func leavesOf(tokens []token) (all [3]leaf) {
	for i, word := range keyWords(len(tokens)) {
		all[i] = leafOf(len(tokens), i, tokens[word].hash)
	}
	return all
}

// allLeaves returns leavesOf and the leaf for a template with a list.
func allLeaves(tokens []token) [4]leaf {
	all := leavesOf(tokens)
	return [4]leaf{all[0], all[1], all[2], listLeaf(tokens)}
}

// listLeaf returns the leaf for a template with a list, which is found by the first word.
func listLeaf(tokens []token) leaf { return leafOf(0, 0, tokens[0].hash) }

// The kinds of bytes. All others are punctuation or space.
const (
	isLetter byte = 1 << iota
	isDigit
	inWord // other characters that don't separate words
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

// seed and prime are the constants of FNV-1a.
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
