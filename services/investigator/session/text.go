package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxInline is how many bytes of a text, as JSON, stand in a fact. A longer one is an object.
const MaxInline = 256 << 10

// maxExcerpt is how many bytes of a text that is an object stand beside its name. It is as much
// as a model is ever shown of one result: 25,000 tokens.
const maxExcerpt = maxResultTokens * bytesPerToken

// Text is a text that may be long. A text of at most [MaxInline] bytes stands in the fact; a
// longer one is an object of the session's own, named by its digest, and the fact has its head
// and tail. The fold and [Next] need no more than that.
type Text struct {
	Inline string `json:"text,omitempty"`
	// Object is the hexadecimal SHA-256 of the text where it is stored apart, and Size its bytes.
	Object string `json:"object,omitempty"`
	Size   int    `json:"size,omitempty"`
	// Excerpt is the head and the tail of the object.
	Excerpt string `json:"excerpt,omitempty"`
}

// NewText returns the text for a fact, and whether the caller has to store whole as the object
// named in it before it stores the fact.
func NewText(whole string) (t Text, store bool) {
	whole = strings.ToValidUTF8(whole, "\uFFFD")
	if fits(whole) {
		return Text{Inline: whole}, false
	}
	sum := sha256.Sum256([]byte(whole))
	return Text{
		Object: hex.EncodeToString(sum[:]), Size: len(whole),
		Excerpt: Excerpt(whole, maxExcerpt, "the rest is stored"),
	}, true
}

// fits reports whether a text has at most MaxInline bytes as JSON, which writes some characters
// as six.
func fits(text string) bool {
	const longest = 6
	if len(text) > MaxInline || longest*len(text) <= MaxInline {
		return len(text) <= MaxInline
	}
	encoded, err := json.Marshal(text)
	return err == nil && len(encoded) <= MaxInline+len(`""`)
}

// Empty reports whether the text has nothing but white space.
func (t Text) Empty() bool { return t.Object == "" && strings.TrimSpace(t.Inline) == "" }

// Shown returns the text, or its head and tail where it is stored apart.
func (t Text) Shown() string {
	if t.Object != "" {
		return t.Excerpt
	}
	return t.Inline
}

// parts returns the inline text, or the head and the tail of an object as texts of their own.
func (t Text) parts() []string {
	if t.Object == "" {
		return []string{t.Inline}
	}
	// The excerpt was cut by [NewText], and its line on the gap is the one with this hint. The
	// text itself may have such lines, so it is cut at each.
	return gapLine.Split(t.Excerpt, -1)
}

// gapLine is the line that [Excerpt] puts between head and tail.
var gapLine = regexp.MustCompile(`\n\[\.\.\. \d+ bytes left out: [^\n]* \.\.\.\]\n`)

// Len returns the bytes of the whole text.
func (t Text) Len() int {
	if t.Object != "" {
		return t.Size
	}
	return len(t.Inline)
}

// Excerpt returns text, or, where it has more than limit bytes, its head and its tail with a
// line between them that names the gap and the hint. It cuts between characters, and at the end
// of a line where one is near. The result has at most limit bytes.
func Excerpt(text string, limit int, hint string) string {
	if len(text) <= limit {
		return text
	}
	mark := func(gap int) string { return fmt.Sprintf("\n[... %d bytes left out: %s ...]\n", gap, hint) }
	room := limit - len(mark(len(text)))
	if room <= 0 {
		return Head(text, limit)
	}
	head := Head(text, room*2/3)
	if i := strings.LastIndexByte(head, '\n'); i > len(head)*3/4 {
		head = head[:i]
	}
	tail := text[len(text)-room/3:]
	for tail != "" && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < len(tail)/4 {
		tail = tail[i+1:]
	}
	return head + mark(len(text)-len(head)-len(tail)) + tail
}

// Head returns the first bytes of text, at most limit, cut between characters.
func Head(text string, limit int) string {
	if limit <= 0 {
		return ""
	}
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
