package redact

import (
	"strings"
	"unicode/utf8"
)

const (
	// MaxBody is how long Body leaves a body, in bytes, with the mark of a cut.
	MaxBody = 8 << 10
	// cutMark ends a body that was cut.
	cutMark = " ... [cut]"
)

// Body masks the secrets in a request or response body: JSON, a form or any
// other text. Then it cuts it to at most MaxBody bytes at a rune boundary, not
// within a mask; what was cut ends in " ... [cut]".
func (e *Engine) Body(s string) string {
	m := modeText
	if isForm(s) {
		m = modeForm
	}
	for range maxRounds {
		out := cut(e.clean(s, m))
		if out == s {
			return out
		}
		s = out
		if m == modeForm && !isForm(s) {
			m = modeText
		}
	}
	return Mask
}

// isForm says that a body is application/x-www-form-urlencoded, by its looks:
// no white space, no quotes and a name before the first =.
func isForm(s string) bool {
	s = strings.TrimSuffix(s, cutMark)
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

func cut(s string) string {
	if len(s) <= MaxBody {
		return s
	}
	end := MaxBody - len(cutMark)
	for end > 0 && !utf8.RuneStart(s[end]) && end > MaxBody-len(cutMark)-utf8.UTFMax {
		end--
	}
	const longestMask = 32
	near := max(0, end-longestMask)
	if open := strings.LastIndex(s[near:min(len(s), end+len(Mask))], Mask[:len(Mask)-1]); open >= 0 {
		if to := strings.IndexByte(s[near+open:], ']'); near+open < end && near+open+to >= end {
			end = near + open
		}
	}
	return s[:end] + cutMark
}
