// Package gotest reads the output of go test -json while the tests run, and sums it up. It
// keeps only running tests and failures, so a run of any length takes bounded memory.
//
// A test that failed only because a subtest did is not counted. A failure outside of a test
// (a package that does not build, TestMain, an interrupted run) is an error with the
// package's name.
package gotest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/tocsin-bus/tocsin/services/ingest/testrun"
)

// maxLine is the longest line that is read as an event, in bytes: go test cuts output into
// pieces of 4 KiB. Longer lines are text.
const maxLine = 1 << 20

// Read reads events from in until it ends. Meanwhile it writes the output of the tests, and
// lines that are no events, to out, which may be nil. It returns errors of in; after an
// error of out it writes no more.
func Read(in io.Reader, out io.Writer) (testrun.Outcome, error) {
	f := newFold()
	write := func(text []byte) {
		if out == nil {
			return
		}
		if _, err := out.Write(text); err != nil {
			out = nil
		}
	}
	lines := bufio.NewReaderSize(in, 64<<10)
	var line []byte
	whole := true // false in the middle of a line that is too long to be an event
	for {
		part, err := lines.ReadSlice('\n')
		if whole {
			line = append(line, part...)
		} else {
			write(part)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) <= maxLine:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			write(line)
			line, whole = line[:0], false
			continue
		case whole && len(line) > 0:
			write(f.line(line))
		}
		line, whole = line[:0], true
		if errors.Is(err, io.EOF) {
			return f.end(), nil
		}
		if err != nil {
			return testrun.Outcome{}, fmt.Errorf("read the events of go test: %w", err)
		}
	}
}

// line adds one line, and returns the text to print for it.
func (f *fold) line(line []byte) []byte {
	e, ok := decode(line)
	if !ok {
		f.other.add(string(line))
		return line
	}
	f.events = true
	f.recordTime(e.Time)
	switch {
	case e.Action == actionBuildOutput:
		f.buildOutput(e.ImportPath, e.Output)
	case e.Action == actionBuildFail:
		f.buildFailed(e.ImportPath)
	case e.Package != "" && e.Test != "":
		f.testEvent(e)
	case e.Package != "":
		f.packageEvent(e)
	}
	return []byte(e.Output)
}

// end returns the outcome after the last line.
func (f *fold) end() testrun.Outcome {
	if !f.events {
		f.out.Errors++
		text := "there was no event of go test -json: it did not start, or ran without -json"
		if output := f.other.text(); output != "" {
			text += "\n" + output
		}
		f.out.Fail("go test", text)
	}
	for _, name := range slices.Sorted(maps.Keys(f.packages)) {
		f.unfinished(name)
	}
	for _, path := range slices.Sorted(maps.Keys(f.builds)) {
		if b := f.builds[path]; b.failed && !b.reported {
			f.fail(packageOf(path), "build failed", &b.tail)
		}
	}
	if d := f.last.Sub(f.first); d > 0 {
		f.out.Duration = min(d, testrun.MaxDuration)
	}
	return f.out
}
