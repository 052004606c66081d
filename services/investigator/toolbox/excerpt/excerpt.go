// Package excerpt reads a tool result that was too large for a model's window in parts: it is what
// the built-in tool read_result does.
//
// It is pure. The result is stored elsewhere, masked.
package excerpt

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// ToolName is the name of the built-in tool that reads the rest.
	ToolName = "read_result"
	// MaxAnswer bounds an answer of [Read], in bytes.
	MaxAnswer = 16 << 10
	// MaxSearch bounds the text to search for, in bytes. A longer one is answered with an error.
	MaxSearch = 500
	// maxMatches bounds the places that one search lists.
	maxMatches = 50
	// contextBytes are shown before and after a match.
	contextBytes = 100
)

// ToolDescription describes read_result to the model.
const ToolDescription = "Reads more of the alert or of a tool result that was shown in part. Give the id from the line " +
	"that names what is not shown, and either an offset in bytes to read from there, or a text to search for: " +
	"the answer then lists the offsets where it occurs."

// Schema returns the JSON schema of the arguments of read_result.
func Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"id":{"type":"string","description":"Id of the result, from the line that names what is not shown"},` +
		`"offset":{"type":"integer","minimum":0,"description":"Byte to start from; 0 is the beginning"},` +
		`"search":{"type":"string","maxLength":500,"description":"Text to look for, letter case aside; lists offsets"}},` +
		`"required":["id"],"additionalProperties":false}`)
}

// cutBack returns the last beginning of a character at or before i.
func cutBack(text string, i int) int {
	for i > 0 && i < len(text) && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}

// cutForward returns the first beginning of a character at or after i.
func cutForward(text string, i int) int {
	for i > 0 && i < len(text) && !utf8.RuneStart(text[i]) {
		i++
	}
	return i
}

// Read answers read_result: the text from offset on, or, with search, the places at or after
// offset where it occurs. The answer has at most [MaxAnswer] bytes and ends with where to go on.
func Read(text string, offset int, search string) string {
	if offset < 0 || offset > len(text) {
		return fmt.Sprintf("The offset %d is outside of the result, which has %d bytes.", offset, len(text))
	}
	if len(search) > MaxSearch {
		return fmt.Sprintf("The text to search for has %d bytes; at most %d are possible.", len(search), MaxSearch)
	}
	offset = cutBack(text, offset)
	if search != "" {
		return find(text, offset, strings.ToValidUTF8(search, string(utf8.RuneError)))
	}
	const frame = 200 // bytes for the first line and the last one
	end := cutBack(text, min(len(text), offset+MaxAnswer-frame))
	answer := fmt.Sprintf("[bytes %d to %d of %d]\n%s", offset, end, len(text), text[offset:end])
	if end < len(text) {
		answer += fmt.Sprintf("\n[%d more bytes: read on at offset %d]", len(text)-end, end)
	}
	return answer
}

func find(text string, offset int, search string) string {
	pattern := regexp.MustCompile("(?i)" + regexp.QuoteMeta(search))
	var b strings.Builder
	next, matches := offset, 0
	for next <= len(text) {
		m := pattern.FindStringIndex(text[next:])
		if m == nil {
			break
		}
		start, end := next+m[0], next+m[1]
		from, to := cutBack(text, max(offset, start-contextBytes)), cutForward(text, min(len(text), end+contextBytes))
		line := fmt.Sprintf("offset %d: %s\n", start, strings.ReplaceAll(text[from:to], "\n", " "))
		if matches == maxMatches || b.Len()+len(line) > MaxAnswer-200 {
			return fmt.Sprintf("%d places so far; search on from offset %d.\n%s", matches, start, b.String())
		}
		b.WriteString(line)
		matches++
		next = end
	}
	if matches == 0 {
		return fmt.Sprintf("The text does not occur at or after offset %d of %d.", offset, len(text))
	}
	return fmt.Sprintf("%d places in %d bytes.\n%s", matches, len(text), b.String())
}
