package conclusion

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxUnescape is how many layers of JSON escapes are removed: a log line that is JSON, in the
// JSON of a tool result.
const maxUnescape = 2

// Check returns the conclusion with Supported set for each piece of evidence, and with the
// confidence that this leaves. lookup returns the stored, masked texts of the calls and facts with
// an id: none if there is no such id, and several if several calls had it. It is asked once for
// each id, and no text is kept after the next one. Check takes time linear in the size of the
// texts times MaxEvidence. More pieces of evidence than that are not supported.
//
// A quote is supported if it occurs in one of the texts with the same case, after both are normalized to
// NFC and each run of white space became one space. Either may be JSON-escaped, in up to
// maxUnescape layers.
func Check(c Conclusion, lookup func(callID string) []string) Conclusion {
	c.Evidence = slices.Clone(c.Evidence)
	byCall := map[string][]int{}
	for i := range c.Evidence {
		e := &c.Evidence[i]
		e.Supported = false
		if i < MaxEvidence {
			byCall[e.CallID] = append(byCall[e.CallID], i)
		}
	}
	for i := range c.Evidence {
		pieces := byCall[c.Evidence[i].CallID]
		if len(pieces) == 0 || pieces[0] != i {
			continue
		}
		for _, text := range lookup(c.Evidence[i].CallID) {
			in := forms(text)
			for _, k := range pieces {
				e := &c.Evidence[k]
				e.Supported = e.Supported || found(e.Quote, in)
			}
		}
	}
	c.Confidence = c.supportedConfidence()
	return c
}

func (c Conclusion) supportedConfidence() Confidence {
	supported := 0
	for _, e := range c.Evidence {
		if e.Supported {
			supported++
		}
	}
	switch {
	case supported == 0 && len(c.Evidence) > 0:
		return Unproven
	case c.Confidence == Proven && (supported == 0 || supported < len(c.Evidence)):
		return Likely
	}
	return c.Confidence
}

// found reports whether a form of the quote, of the length that a quote has, is in one of the texts.
func found(quote string, texts []string) bool {
	if utf8.RuneCountInString(quote) > MaxQuote {
		return false
	}
	for _, q := range forms(quote) {
		if utf8.RuneCountInString(q) < MinQuote {
			continue
		}
		for _, text := range texts {
			if strings.Contains(text, q) {
				return true
			}
		}
	}
	return false
}

// forms returns the normalized text as it is, and without each layer of JSON escapes.
func forms(text string) []string {
	all := []string{normalize(text)}
	for range maxUnescape {
		plain := unescape(text)
		if plain == text {
			break
		}
		text = plain
		all = append(all, normalize(text))
	}
	return all
}

// normalize returns the text in NFC, with one space for each run of white space and none at the
// edges.
func normalize(text string) string {
	text = norm.NFC.String(strings.ToValidUTF8(text, "\uFFFD"))
	var b strings.Builder
	b.Grow(len(text))
	space := false
	for _, r := range text {
		if unicode.IsSpace(r) {
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}

// unescape removes one layer of JSON escapes. What is no escape stays.
func unescape(text string) string {
	i := strings.IndexByte(text, '\\')
	if i < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for i >= 0 {
		b.WriteString(text[:i])
		text = text[i:]
		r, n := escaped(text)
		if n == 0 {
			b.WriteByte('\\')
			n = 1
		} else {
			b.WriteRune(r)
		}
		text = text[n:]
		i = strings.IndexByte(text, '\\')
	}
	b.WriteString(text)
	return b.String()
}

// escaped decodes the escape at the start of the text, and returns its length, or 0 if there is
// none.
func escaped(text string) (rune, int) {
	if len(text) < 2 {
		return 0, 0
	}
	switch text[1] {
	case '"', '\\', '/':
		return rune(text[1]), 2
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
		r, ok := hexUnit(text)
		if !ok {
			return 0, 0
		}
		if utf16.IsSurrogate(r) {
			low, _ := hexUnit(text[6:])
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12
			}
			return utf8.RuneError, 6
		}
		return r, 6
	}
	return 0, 0
}

// hexUnit reads \uXXXX.
func hexUnit(text string) (rune, bool) {
	if len(text) < 6 || text[:2] != `\u` {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(n), err == nil
}
