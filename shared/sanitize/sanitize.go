// Package sanitize makes text from outside safe to store and to show: without invisible
// characters that hide words from a reader, and without control characters that a terminal
// or a model would act on.
//
// It masks no secrets: package redact does. Package display does both for what is shown.
package sanitize

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Strip returns text that is safe to store. Invisible characters are removed, but for the
// joiners: bidirectional controls, zero-width characters, variation selectors, blank letters,
// Unicode tags and byte order marks. Control characters other than line feed and tab, and the
// line and paragraph separators, get a visible form: a control picture of Unicode (ESC becomes
// U+241B), or an escape such as \u0085 where there is none. A carriage return before a line
// feed is removed. Invalid UTF-8 becomes U+FFFD.
//
// Clean text is returned as it is, without an allocation.
func Strip(text string) string { return clean(text, false) }

// Visible is [Strip] for text that is shown in one line: line feeds and tabs get a visible form
// as well.
func Visible(text string) string { return clean(text, true) }

func clean(text string, oneLine bool) string {
	i := dirty(text, oneLine)
	if i < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 16)
	b.WriteString(text[:i])
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		crlf := r == '\r' && !oneLine && strings.HasPrefix(text[i+size:], "\n")
		i += size
		if !crlf {
			write(&b, r, oneLine)
		}
	}
	return b.String()
}

// dirty returns the index of the first character to remove or replace, or -1.
func dirty(text string, oneLine bool) int {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if (c < ' ' && (oneLine || c != '\n' && c != '\t')) || c == del {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 || hidden(r) || spelled(r) {
			return i
		}
		i += size
	}
	return -1
}

const (
	del = 0x7f
	// pictures is the first of the control pictures: U+2400 is that of NUL.
	pictures   = 0x2400
	delPicture = 0x2421
)

func write(b *strings.Builder, r rune, oneLine bool) {
	switch {
	case hidden(r):
	case r == '\n' || r == '\t':
		if oneLine {
			r += pictures
		}
		b.WriteRune(r)
	case r < ' ':
		b.WriteRune(r + pictures)
	case r == del:
		b.WriteRune(delPicture)
	case spelled(r):
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		b.WriteRune(r)
	}
}

// spelled reports whether a character above ASCII is a control: one of C1, such as the
// terminal's CSI, or the line or paragraph separator.
func spelled(r rune) bool {
	return r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029
}

// hidden reports whether a character is invisible and only hides or reorders what a reader
// sees: Unicode's Default_Ignorable_Code_Point and the annotation marks. The joiners U+200C and
// U+200D are part of words and emoji, and stay. An emoji loses its variation selector, which
// can carry hidden bytes.
func hidden(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case r == 0xad, r == 0x034f, // soft hyphen, grapheme joiner
		r == 0x061c, r == 0x200e, r == 0x200f, // bidirectional marks
		r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, // embeddings, overrides, isolates
		r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, // blank Hangul letters
		r == 0x17b4, r == 0x17b5, // blank Khmer vowels
		r >= 0x180b && r <= 0x180f, r == 0x200b, // Mongolian selectors, zero-width space
		r >= 0x2060 && r <= 0x2065, r >= 0x206a && r <= 0x206f, // word joiner, invisible operators, deprecated format characters
		r >= 0xfe00 && r <= 0xfe0f,                                 // variation selectors
		r == 0xfeff,                                                // byte order mark
		r >= 0xfff0 && r <= 0xfffb,                                 // unassigned, interlinear annotations
		r >= 0x1bca0 && r <= 0x1bca3, r >= 0x1d173 && r <= 0x1d17a, // shorthand and musical format controls
		r >= 0xe0000 && r <= 0xe0fff: // tags, more variation selectors
		return true
	}
	return false
}

// Cut truncates text to limit characters, including an ellipsis at its end. It never cuts through a
// character.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end, n := 0, 0
	for i := range text {
		if n == limit-1 {
			end = i
		}
		if n == limit {
			return text[:end] + "…"
		}
		n++
	}
	return text
}
