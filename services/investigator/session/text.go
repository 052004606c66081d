package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/services/investigator/prompt"
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

// gapLine is the line that [Excerpt] puts between head and tail, at the start of a text.
var gapLine = regexp.MustCompile(`^\n\[\.\.\. (\d+) bytes left out: [^\n]* \.\.\.\]\n`)

// ends returns the head and the tail of an object, and reports whether the head is the whole text.
func (t Text) ends() (head, tail string, whole bool) {
	if len(t.Excerpt) == t.Size {
		return t.Excerpt, "", true
	}
	// The text may have such lines of its own, but not with the number of bytes that are missing.
	for i := range len(t.Excerpt) {
		if t.Excerpt[i] != '\n' {
			continue
		}
		head, rest := t.Excerpt[:i], t.Excerpt[i:]
		if m := gapLine.FindStringSubmatch(rest); m != nil {
			if tail = rest[len(m[0]):]; m[1] == strconv.Itoa(t.Size-len(head)-len(tail)) {
				return head, tail, false
			}
		}
	}
	return t.Excerpt, "", false
}

// excerpt is like [Excerpt] of the whole text. Hint is called with the number of bytes before the
// gap.
func (t Text) excerpt(limit int, hint func(offset int) string) string {
	if t.Object == "" {
		return cut(t.Inline, t.Inline, len(t.Inline), limit, hint)
	}
	head, tail, whole := t.ends()
	if whole {
		return cut(head, head, t.Size, limit, hint)
	}
	return cut(head, tail, t.Size, min(limit, len(t.Excerpt)), hint)
}

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
	return cut(text, text, len(text), limit, func(int) string { return hint })
}

// fenceBytes is how many bytes the two lines of the fence around a result have. [excerptFenced] adds
// no more to a text.
const fenceBytes = 64

// excerptFenced is [Excerpt] of a text that may have fences. A fence that the gap cuts ends before
// the gap, and one in which the tail begins is begun again.
func excerptFenced(text string, limit int, hint string) string {
	if len(text) <= limit || !strings.Contains(text, "<<<") {
		return Excerpt(text, limit, hint)
	}
	head, mark, tail := split(text, text, len(text), max(limit-fenceBytes, 0), func(int) string { return hint })
	if b := prompt.OpenFence(head); b != "" {
		head += "\n" + prompt.EndFence(b)
	}
	if tail == "" {
		return head + mark
	}
	// A line of a fence that the gap cuts counts as a whole.
	start := len(text) - len(tail)
	if text[start-1] != '\n' {
		line, _, _ := strings.Cut(tail, "\n")
		start += len(line)
	}
	if b := prompt.OpenFence(text[:start]); b != "" {
		tail = prompt.BeginFence(b, "the rest") + "\n" + tail
	}
	return head + mark + tail
}

// cut is [Excerpt] of a text of size bytes that begins with head and ends with tail.
func cut(head, tail string, size, limit int, hint func(offset int) string) string {
	if size <= limit {
		return head
	}
	head, mark, tail := split(head, tail, size, limit, hint)
	return head + mark + tail
}

// split returns the parts of a text that has more than limit bytes: its head, the line for the gap,
// and its tail.
func split(head, tail string, size, limit int, hint func(offset int) string) (start, gap, end string) {
	mark := func(gap, offset int) string {
		return fmt.Sprintf("\n[... %d bytes left out: %s ...]\n", gap, hint(offset))
	}
	room := limit - len(mark(size, size))
	if room <= 0 {
		return Head(head, limit), "", ""
	}
	if room*2/3 < len(head) {
		head = Head(head, room*2/3)
	}
	if i := strings.LastIndexByte(head, '\n'); i > len(head)*3/4 {
		head = head[:i]
	}
	if room/3 < len(tail) {
		tail = tail[len(tail)-room/3:]
	}
	for tail != "" && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < len(tail)/4 {
		tail = tail[i+1:]
	}
	return head, mark(size-len(head)-len(tail), len(head)), tail
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
