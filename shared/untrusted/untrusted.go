// Package untrusted makes text from outside fit to be stored and shown: no
// invisible characters that hide words from a reader, and no control
// characters that a terminal or a model would act on (contract, section 8).
//
// It does not mask secrets: that is package redact's work.
package untrusted

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Strip makes text fit to be stored. Bidirectional controls, zero-width
// characters but the joiners, Unicode tags and byte order marks are removed.
// Control characters other than line feed and tab get a visible form: the
// control pictures of Unicode (ESC becomes U+241B), or \u0085 spelled out where
// there is none. A carriage return before a line feed is dropped. Bytes that
// are no UTF-8 become U+FFFD.
//
// Clean text is returned as it is, without an allocation.
func Strip(text string) string { return clean(text, false) }

// Visible makes text fit to be shown to an agent, in one line: as Strip does,
// and line feeds and tabs get a visible form as well.
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

// dirty is the index of the first character that has to go, or -1.
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
		if r == utf8.RuneError && size == 1 || hidden(r) || spelled(r, oneLine) {
			return i
		}
		i += size
	}
	return -1
}

const (
	del = 0x7f
	// pictures is where the control pictures begin: U+2400 stands for NUL.
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
	case spelled(r, oneLine):
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		b.WriteRune(r)
	}
}

// spelled says whether a character above ASCII acts as a control: those of C1,
// among them the terminal's CSI, and in one line also the line separators.
func spelled(r rune, oneLine bool) bool {
	return r >= 0x80 && r < 0xa0 || oneLine && (r == 0x2028 || r == 0x2029)
}

// hidden says whether a character is invisible and only serves to hide or to
// reorder what a reader sees. The joiners U+200C and U+200D are part of words
// and emoji and stay.
func hidden(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case r == 0xad, // soft hyphen
		r == 0x061c, r == 0x200e, r == 0x200f, // bidirectional marks
		r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, // embeddings, overrides, isolates
		r == 0x180e, r == 0x200b, // zero-width spaces
		r >= 0x2060 && r <= 0x2065, r >= 0x206a && r <= 0x206f, // word joiner, invisible operators, deprecated format characters
		r == 0xfeff,                  // byte order mark
		r >= 0xe0000 && r <= 0xe007f, // tags
		r >= 0xfff9 && r <= 0xfffb:   // interlinear annotations
		return true
	}
	return false
}

// Cut returns text of at most limit characters, with an ellipsis as the last
// one where something is missing. It does not cut through a character.
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
