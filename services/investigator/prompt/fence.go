package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
	return fmt.Sprintf("<<<%s begins: %s\n%s\n>>>%s ends", b, line(name), text, b)
}

func boundary(session string, n int) string {
	sum := sha256.Sum256([]byte("boundary\x00" + session + "\x00" + strconv.Itoa(n)))
	return hex.EncodeToString(sum[:])[:boundaryLength]
}
