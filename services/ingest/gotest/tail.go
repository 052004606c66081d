package gotest

import "strings"

const (
	// maxLines and maxBytes bound the last lines of an output.
	maxLines = 40
	maxBytes = 16 << 10
	// maxPanic is how many lines are kept from the start of a panic: the first ones explain
	// it, and many may follow.
	maxPanic = 30
)

// tail is the end of an output: its last lines, or those before a panic and the first lines
// of that. Its zero value is empty.
type tail struct {
	lines    []string
	panicked bool
	panic    []string
	bytes    int // of both
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
		if len(t.panic) < maxPanic && t.bytes+len(line) <= 2*maxBytes {
			t.panic = append(t.panic, line)
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
		clear(t.lines[n:]) // frees their memory
		t.lines = t.lines[:n]
	}
}

// text returns the kept lines, without blanks around them.
func (t *tail) text() string {
	return strings.TrimSpace(strings.Join(t.lines, "") + strings.Join(t.panic, ""))
}
