package drain

import (
	"slices"
	"strings"
)

// Hole stands in the text of a template for what varies. No line of package template
// holds it.
const Hole = 0x01

// shownHole is how people see it.
const shownHole = "<*>"

// Template is what lines have in common. It does not change.
type Template struct {
	text   string
	tokens []token
	holes  int
}

// Parse reads the text of a template, also of one that varies nowhere. It refuses
// what Mine would not have made: one that varies too much.
func Parse(text string) (*Template, bool) {
	// Cut measures the words; what it is to take for a hole is a word to it.
	plain := []byte(strings.ReplaceAll(text, string(rune(Hole)), "x"))
	var line Line
	if !line.Cut(plain) {
		return nil, false
	}
	t := &Template{text: text, tokens: slices.Clone(line.tokens[:line.n])}
	var f form
	for i := range t.tokens {
		w := &t.tokens[i]
		word := text[w.word:w.end]
		switch {
		case strings.IndexByte(text[w.start:w.end], Hole) < 0:
			f.word(w.firm, i, len(t.tokens))
		case len(word) == 1 && w.varies:
			w.hole, w.firm = true, false
			f.hole()
		default:
			return nil, false // it is not all of the word, or there is another
		}
	}
	t.holes = f.holes
	return t, f.ok()
}

// Text is the template with Hole for what varies, for Parse.
func (t *Template) Text() string { return t.text }

// String is the template with <*> for what varies.
func (t *Template) String() string { return Shown(t.text) }

// Shown is the text of a template with <*> for what varies.
func Shown(text string) string { return strings.ReplaceAll(text, string(rune(Hole)), shownHole) }

// Holes is how many places vary.
func (t *Template) Holes() int { return t.holes }

// Size is about how many bytes it takes.
func (t *Template) Size() int { return len(t.text) + 24*len(t.tokens) + 64 }

// Matches says whether a line is one of the template's.
func (t *Template) Matches(l *Line) bool {
	if l.n != len(t.tokens) {
		return false
	}
	for i := range t.tokens {
		own, w := &t.tokens[i], &l.tokens[i]
		switch {
		case !own.hole:
			if string(l.text[w.start:w.end]) != t.text[own.start:own.end] {
				return false
			}
		case !w.varies || string(l.text[w.start:w.word]) != own.between(t.text):
			return false
		}
	}
	return true
}

// Covers says whether every line of another template is one of this, too.
func (t *Template) Covers(o *Template) bool {
	return t.agrees(o, func(own, other *token) bool { return own.hole || !other.hole })
}

// Overlaps says whether there are lines of both.
func (t *Template) Overlaps(o *Template) bool {
	return t.agrees(o, func(*token, *token) bool { return true })
}

// agrees says whether lines of both can be in every place, and whether ok says so of
// it.
func (t *Template) agrees(o *Template, ok func(own, other *token) bool) bool {
	if len(t.tokens) != len(o.tokens) {
		return false
	}
	for i := range t.tokens {
		own, other := &t.tokens[i], &o.tokens[i]
		if !ok(own, other) {
			return false
		}
		if !own.hole && !other.hole {
			if t.text[own.start:own.end] != o.text[other.start:other.end] {
				return false
			}
		} else if !fits(t.text, own, o.text, other) {
			return false
		}
	}
	return true
}
