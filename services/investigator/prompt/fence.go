package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// boundaryLength is the characters of a boundary: 64 bits in hexadecimal.
const boundaryLength = 16

// Fenced returns text between two lines with a boundary. The boundary comes from the session's
// id, whose entropy is drawn after the alert was written, and it never occurs in the text: where
// it does, as when a tool's author knew the id, the next one is taken.
func Fenced(session, name, text string) string {
	b := boundary(session, 0)
	for n := 1; strings.Contains(strings.ToLower(text), b); n++ {
		b = boundary(session, n)
	}
	return BeginFence(b, name) + "\n" + text + "\n" + EndFence(b)
}

// BeginFence returns the line that begins a fence, and EndFence the one that ends it.
func BeginFence(boundary, name string) string {
	return fmt.Sprintf("<<<%s begins: %s", boundary, line(name))
}

// EndFence is like [BeginFence].
func EndFence(boundary string) string { return fmt.Sprintf(">>>%s ends", boundary) }

// beginning matches the line that begins a fence.
var beginning = regexp.MustCompile(`^<<<([0-9a-f]{` + strconv.Itoa(boundaryLength) + `}) begins: `)

// OpenFence returns the boundary of the fence in which a text ends that begins outside, or "" where
// it ends outside too.
func OpenFence(text string) string {
	open := ""
	for l := range strings.SplitSeq(text, "\n") {
		switch {
		case open != "":
			if l == EndFence(open) {
				open = ""
			}
		case strings.HasPrefix(l, "<<<"):
			if m := beginning.FindStringSubmatch(l); m != nil {
				open = m[1]
			}
		}
	}
	return open
}

func boundary(session string, n int) string {
	sum := sha256.Sum256([]byte("boundary\x00" + session + "\x00" + strconv.Itoa(n)))
	return hex.EncodeToString(sum[:])[:boundaryLength]
}
