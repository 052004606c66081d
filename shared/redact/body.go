package redact

import (
	"strings"
	"unicode/utf8"
)

const (
	// MaxBody is the maximum length of a body after Body, in bytes.
	MaxBody = 8 << 10
	// cutMark ends a truncated body.
	cutMark = " ... [cut]"
)

// Body masks the secrets in a request or response body: JSON, a form or any other text. It then
// truncates it to at most MaxBody bytes, at a rune boundary and not within a mask; a truncated
// body ends in " ... [cut]".
func (e *Engine) Body(s string) string {
	s, marked := strings.CutSuffix(s, cutMark) // the mark is ours, and no value
	for range maxRounds {
		m := modeText
		if isForm(s) {
			m = modeForm
		}
		kept := e.clean(s, m)
		if room := MaxBody - len(cutMark); len(kept) > MaxBody || marked && len(kept) > room {
			kept, marked = cut(kept, room), true
		}
		if kept != s {
			s = kept
			continue
		}
		if marked {
			s += cutMark
		}
		return s
	}
	return Mask
}

// isForm reports whether a body looks like application/x-www-form-urlencoded: without
// white space and quotes, with a name before the first =.
func isForm(s string) bool {
	first := strings.IndexByte(s, '=')
	if first <= 0 || strings.IndexByte(`{["<`, s[0]) >= 0 {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == '"' || s[i] == '<' || s[i] == '>' || i < first && s[i] == ':' {
			return false
		}
	}
	return true
}

// cut returns at most the first end bytes of a text: fewer where they would end within a rune or a
// mask.
func cut(s string, end int) string {
	const longestMask, opening = 40, "[REDACTED"
	for least := end - utf8.UTFMax; end > least && !utf8.RuneStart(s[end]); {
		end--
	}
	near := end - longestMask
	open := strings.LastIndex(s[near:min(len(s), end+len(opening)-1)], opening)
	if open >= 0 && near+open+strings.IndexByte(s[near+open:], ']') >= end {
		end = near + open
	}
	return s[:end]
}
