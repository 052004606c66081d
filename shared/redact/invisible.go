package redact

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// invisible reports whether a character has no width, so that a reader does not see that it splits
// a word: the joiners, which are parts of words and emoji and stay in texts, and those that
// package sanitize removes, before masking or after it.
func invisible(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case r == 0xad, r == 0x034f, r == 0x061c, // soft hyphen, grapheme joiner, Arabic mark
		r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, // blank Hangul letters
		r == 0x17b4, r == 0x17b5, // blank Khmer vowels
		r >= 0x180b && r <= 0x180f,              // Mongolian selectors and separator
		r >= 0x200b && r <= 0x200f,              // zero-width space, joiners, marks
		r >= 0x202a && r <= 0x202e,              // embeddings, overrides
		r >= 0x2060 && r <= 0x206f,              // word joiner, isolates, deprecated ones
		r >= 0xfe00 && r <= 0xfe0f,              // variation selectors
		r == 0xfeff, r >= 0xfff0 && r <= 0xfffb, // byte order mark, annotations
		r >= 0x1bca0 && r <= 0x1bca3, r >= 0x1d173 && r <= 0x1d17a, // shorthand and musical format controls
		r >= 0xe0000 && r <= 0xe0fff: // tags, more variation selectors
		return true
	default:
		return false
	}
}

// firstInvisible returns the index of the first invisible character of s, or -1.
func firstInvisible(s string) int {
	const eightHigh = 0x8080808080808080
	for i := 0; i < len(s); {
		for len(s)-i >= 8 {
			b := s[i : i+8]
			if (uint64(b[0])|uint64(b[1])<<8|uint64(b[2])<<16|uint64(b[3])<<24|
				uint64(b[4])<<32|uint64(b[5])<<40|uint64(b[6])<<48|uint64(b[7])<<56)&eightHigh != 0 {
				break
			}
			i += 8
		}
		if i == len(s) {
			break
		}
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if invisible(r) {
			return i
		}
		i += size
	}
	return -1
}

// gap is a position where invisible characters were removed from a text: before which of the
// remaining bytes, and how many bytes so far.
type gap struct{ at, bytes int }

// visible returns s without its invisible characters, and their positions.
func visible(s string) (string, []gap) {
	from := firstInvisible(s)
	if from < 0 {
		return s, nil
	}
	var (
		out   strings.Builder
		gaps  []gap
		taken int
	)
	out.WriteString(s[:from])
	for i := from; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if invisible(r) {
			taken += size
			if n := len(gaps); n > 0 && gaps[n-1].at == out.Len() {
				gaps[n-1].bytes = taken
			} else {
				gaps = append(gaps, gap{out.Len(), taken})
			}
		} else {
			out.WriteString(s[i : i+size])
		}
		i += size
	}
	return out.String(), gaps
}

// takenBefore returns how many bytes were removed before byte i of the remaining ones, including
// those directly before it.
func takenBefore(gaps []gap, i int) int {
	n := sort.Search(len(gaps), func(n int) bool { return gaps[n].at > i })
	if n == 0 {
		return 0
	}
	return gaps[n-1].bytes
}

// editor puts masks into a text, from its beginning to its end.
type editor struct {
	text string
	// gaps are set when the positions of hits are those in the text without its invisible
	// characters.
	gaps   []gap
	out    strings.Builder
	copied int
}

func (ed *editor) replace(h hit) {
	from, to := h.from, h.to
	if ed.gaps != nil {
		from += takenBefore(ed.gaps, from)
		to += takenBefore(ed.gaps, to-1)
	}
	if ed.text[from:to] != h.text {
		ed.out.WriteString(ed.text[ed.copied:from])
		ed.out.WriteString(h.text)
		ed.copied = to
	}
}

// String returns the text with its masks.
func (ed *editor) String() string {
	if ed.copied == 0 {
		return ed.text
	}
	ed.out.WriteString(ed.text[ed.copied:])
	return ed.out.String()
}
