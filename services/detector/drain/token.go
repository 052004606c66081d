package drain

import "bytes"

// token is a word of a line or template, and where in it something may vary: what
// is between its head and its tail.
type token struct {
	start, end uint16 // in the text
	head, tail uint16 // how long they are
	hash       uint64 // of the word
	anchor     uint64 // of what leaves go by: the key, or else the word
	// firm says that the word holds letters of its own, keyed that its head does.
	firm, keyed bool
	// hole says that it varies, in a template.
	hole bool
}

// Line is a line that is looked up. The zero value is ready for Cut, which can be
// called again and again.
type Line struct {
	text   []byte
	n      int
	tokens [MaxTokens]token
}

// Cut takes a line apart at its spaces, and says whether it is of as many words as
// lines with templates are. The line keeps the text.
func (l *Line) Cut(text []byte) bool {
	l.text, l.n = text, 0
	if len(text) > 1<<16-1 || bytes.IndexByte(text, Hole) >= 0 {
		return false
	}
	for begin := 0; begin <= len(text); l.n++ {
		end := begin
		for end < len(text) && text[end] != ' ' {
			end++
		}
		if l.n == MaxTokens || end == begin {
			return false
		}
		l.tokens[l.n] = measure(text[begin:end])
		l.tokens[l.n].start, l.tokens[l.n].end = uint16(begin), uint16(end)
		begin = end + 1
	}
	return l.n >= MinTokens
}

// measure finds the parts of a word.
func measure(word []byte) token {
	t := token{hash: hash(word)}
	t.anchor = t.hash
	tail := len(word)
	for tail > 0 && kinds[word[tail-1]]&closes != 0 {
		tail--
	}
	head := key(word[:tail])
	if t.keyed = head > 0 && firm(word[:head]) && !bytes.HasPrefix(word[head-1:], scheme); t.keyed {
		t.anchor = hash(word[:head])
	}
	for head < tail && kinds[word[head]]&opens != 0 {
		head++
	}
	if !wordy(word[head:tail]) { // nothing but punctuation
		head, tail = len(word), len(word)
	}
	t.head, t.tail, t.firm = uint16(head), uint16(len(word)-tail), t.keyed || firm(word)
	return t
}

var scheme = []byte("://")

// key is how long the name before a value is, with the mark between them, or 0.
func key(word []byte) int {
	for i := 1; i < len(word)-1; i++ {
		if kinds[word[i]]&names != 0 {
			return i + 1
		}
	}
	return 0
}

// wordy says whether there is anything but punctuation.
func wordy(part []byte) bool {
	for _, c := range part {
		if kinds[c]&(isLetter|isDigit) != 0 {
			return true
		}
	}
	return false
}

// empty says that nothing of the word can vary.
func (t *token) empty() bool { return t.head == t.end-t.start }

// fits says whether one template can stand for two words: they differ between a
// head and a tail that are the same.
func fits(a string, of *token, b string, other *token) bool {
	return of.head == other.head && of.tail == other.tail && !of.empty() && !other.empty() &&
		a[of.start:of.start+of.head] == b[other.start:other.start+other.head] &&
		a[of.end-of.tail:of.end] == b[other.end-other.tail:other.end]
}

// The places of the words by which leaves are found are the first two and the last.
func anchors(place, of int) bool { return place < 2 || place == of-1 }

// leavesOf are the leaves for a line or template with these words.
func leavesOf(tokens []token) [3]leaf {
	n := uint8(len(tokens))
	return [3]leaf{{n, 0, tokens[0].anchor}, {n, 1, tokens[1].anchor}, {n, 2, tokens[len(tokens)-1].anchor}}
}

// What a byte can be.
const (
	isLetter byte = 1 << iota
	isDigit
	opens  // stands before what varies
	closes // stands behind it
	names  // stands between a key and its value
)

var kinds = func() (table [256]byte) {
	for c := range table {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 {
			table[c] = isLetter
		} else if c >= '0' && c <= '9' {
			table[c] = isDigit
		}
	}
	for _, c := range []byte(`([{"'/#@$` + "`") {
		table[c] |= opens
	}
	for _, c := range []byte(`)]}"',;:.!?` + "`") {
		table[c] |= closes
	}
	table['='] |= names
	table[':'] |= names
	return table
}()

// firm says whether there are letters outside of <n>, <id> and the like.
func firm(word []byte) bool {
	for i := 0; i < len(word); i++ {
		switch {
		case kinds[word[i]]&isLetter != 0:
			return true
		case word[i] == '<':
			if end := bytes.IndexByte(word[i:min(len(word), i+maxPlaceholder)], '>'); end > 0 {
				i += end
			}
		}
	}
	return false
}

// maxPlaceholder is how long the placeholders of package template are at most.
const maxPlaceholder = len("<time>")

// hash is FNV-1a.
func hash(word []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range word {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}
