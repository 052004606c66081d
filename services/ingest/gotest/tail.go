package gotest

import "strings"

const (
	// maxLines and maxBytes are how much of an output is kept: its last lines.
	maxLines = 40
	maxBytes = 16 << 10
	// maxPinned is how many lines are kept from the start of a panic: the first ones
	// explain it, and many may follow.
	maxPinned = 30
)

// tail is the end of an output. Its zero value is empty.
type tail struct {
	lines  []string
	pinned []string
	bytes  int
	// panicked: lines are pinned.
	panicked bool
}

func (t *tail) add(line string) {
	if strings.TrimSpace(line) == "" && len(t.lines) == 0 {
		return
	}
	for _, start := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
		t.panicked = t.panicked || strings.HasPrefix(line, start)
	}
	if len(line) > maxBytes/2 {
		line = strings.ToValidUTF8(line[:maxBytes/2], "") + "\n"
	}
	if t.panicked {
		if len(t.pinned) < maxPinned && t.bytes+len(line) <= 2*maxBytes {
			t.pinned = append(t.pinned, line)
			t.bytes += len(line)
		}
		return
	}
	t.lines = append(t.lines, line)
	t.bytes += len(line)
	drop := 0
	for len(t.lines)-drop > maxLines || t.bytes > maxBytes {
		t.bytes -= len(t.lines[drop])
		drop++
	}
	if drop > 0 {
		n := copy(t.lines, t.lines[drop:])
		clear(t.lines[n:]) // so that their memory goes
		t.lines = t.lines[:n]
	}
}

// text is what is kept, without the indent that go test adds.
func (t *tail) text() string {
	return strings.TrimSpace(strings.Join(t.lines, "") + strings.Join(t.pinned, ""))
}
