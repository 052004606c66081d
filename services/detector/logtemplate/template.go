package logtemplate

import (
	"slices"
	"strings"
)

// The marks for varying words in the text of a template. Lines never contain them.
const (
	Hole = 0x01 // one word
	List = 0x02 // one word or more
)

// shown replaces the marks for people.
var shown = strings.NewReplacer(string(rune(Hole)), "<*>", string(rune(List)), "<...>")

// plain replaces the marks by words.
var plain = strings.NewReplacer(string(rune(Hole)), "x", string(rune(List)), "x")

// Template is the common part of lines. It is immutable.
type Template struct {
	text   string
	tokens []token
	holes  int
	// list is the index of the token that is a list, 0 for none.
	list int
}

// Parse parses the text of a template, with or without varying words. It refuses templates
// that Mine would not make because they vary too much.
func Parse(text string) (*Template, bool) {
	var line Line
	if !line.Cut([]byte(plain.Replace(text))) {
		return nil, false
	}
	t := &Template{text: text, tokens: slices.Clone(line.tokens[:line.n])}
	var f form
	for i := range t.tokens {
		w := &t.tokens[i]
		word := text[w.word:w.end]
		switch {
		case !Varies(text[w.start:w.end]):
			f.word(w.firm, i, len(t.tokens))
		case len(word) != 1 || !w.varies:
			return nil, false // a mark within a word, or several
		case word[0] == Hole:
			w.hole, w.firm = true, false
			f.hole()
		case t.list > 0 || i == 0 || i == len(t.tokens)-1 || w.between(text) != " ":
			return nil, false
		default:
			t.list, w.firm = i, false
		}
	}
	if t.list > 0 {
		return t, f.holes == 0 && f.firm >= minFirmAround && t.tokens[0].firm
	}
	t.holes = f.holes
	return t, f.ok()
}

// Varies reports whether the text of a template has varying words.
func Varies(text string) bool {
	return strings.IndexByte(text, Hole) >= 0 || strings.IndexByte(text, List) >= 0
}

// Text returns the text of the template with Hole and List, for Parse.
func (t *Template) Text() string { return t.text }

// String returns the template for people, with <*> for a varying word and <...> for a list.
func (t *Template) String() string { return Shown(t.text) }

// Shown returns the text of a template for people.
func Shown(text string) string { return shown.Replace(text) }

// Width returns the number of varying words. A list counts as more than all others.
func (t *Template) Width() int {
	if t.list > 0 {
		return MaxTokens
	}
	return t.holes
}

// Size returns about how many bytes the template takes.
func (t *Template) Size() int { return len(t.text) + 24*len(t.tokens) + 64 }

// Matches reports whether the template matches a line.
func (t *Template) Matches(l *Line) bool {
	behind := 0
	switch {
	case t.list > 0 && l.n >= len(t.tokens):
		behind = len(t.tokens) - 1 - t.list
	case l.n != len(t.tokens):
		return false
	}
	for i := range len(t.tokens) - behind {
		if t.list > 0 && i == t.list {
			break
		}
		if !t.takes(i, l, i) {
			return false
		}
	}
	for i := range behind {
		if !t.takes(len(t.tokens)-1-i, l, l.n-1-i) {
			return false
		}
	}
	return true
}

// takes reports whether token j of a line matches token i of the template.
func (t *Template) takes(i int, l *Line, j int) bool {
	own, w := &t.tokens[i], &l.tokens[j]
	if own.hole {
		return w.varies && string(l.text[w.start:w.word]) == own.between(t.text)
	}
	return string(l.text[w.start:w.end]) == t.text[own.start:own.end]
}

// Covers reports whether t matches every line that o matches.
func (t *Template) Covers(o *Template) bool {
	before, behind := t.around()
	oBefore, oBehind := o.around()
	switch {
	case t.list == 0 && (o.list > 0 || len(t.tokens) != len(o.tokens)),
		t.list > 0 && (len(o.tokens) < len(t.tokens) || o.list > 0 && (oBefore < before || oBehind < behind)):
		return false
	}
	return t.agrees(o, before, behind, func(own, other *token) bool { return own.hole || !other.hole })
}

// Overlaps reports whether there are lines that both templates match.
func (t *Template) Overlaps(o *Template) bool {
	before, behind := t.around()
	oBefore, oBehind := o.around()
	switch {
	case t.list == 0 && o.list == 0 && len(t.tokens) != len(o.tokens),
		t.list > 0 && o.list == 0 && len(o.tokens) < len(t.tokens),
		t.list == 0 && o.list > 0 && len(t.tokens) < len(o.tokens):
		return false
	}
	return t.agrees(o, min(before, oBefore), min(behind, oBehind), func(*token, *token) bool { return true })
}

// around returns the number of words before a list and behind it. Without a list all words
// count as both.
func (t *Template) around() (before, behind int) {
	if t.list == 0 {
		return len(t.tokens), len(t.tokens)
	}
	return t.list, len(t.tokens) - 1 - t.list
}

// agrees reports whether both templates can match the same words at the beginning and at the
// end. before and behind are the numbers of words to compare; ok must accept each pair.
func (t *Template) agrees(o *Template, before, behind int, ok func(own, other *token) bool) bool {
	agree := func(i, j int) bool {
		own, other := &t.tokens[i], &o.tokens[j]
		if own.hole || other.hole {
			return ok(own, other) && fits(t.text, own, o.text, other)
		}
		return ok(own, other) && t.text[own.start:own.end] == o.text[other.start:other.end]
	}
	for i := range before {
		if !agree(i, i) {
			return false
		}
	}
	for i := range behind {
		if !agree(len(t.tokens)-1-i, len(o.tokens)-1-i) {
			return false
		}
	}
	return true
}
