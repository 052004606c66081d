package stack

import "strings"

// lines iterates over the lines of a text.
type lines struct {
	rest string
	seen int
}

// next returns the next line without the white space around it, and how much was before it.
// It reports whether there is one; there is none after MaxLines.
func (l *lines) next() (line string, indent int, more bool) {
	if l.rest == "" || l.seen == MaxLines {
		return "", 0, false
	}
	l.seen++
	line = l.rest
	if end := strings.IndexByte(line, '\n'); end >= 0 {
		line, l.rest = line[:end], line[end+1:]
	} else {
		l.rest = ""
	}
	for indent < len(line) && (line[indent] == ' ' || line[indent] == '\t') {
		indent++
	}
	end := len(line)
	for end > indent && (line[end-1] == ' ' || line[end-1] == '\t' || line[end-1] == '\r') {
		end--
	}
	return line[indent:end], indent, true
}

// language is the programming language of a frame.
type language uint8

const (
	unknown language = iota
	javaScript
	python
	golang
	java
	dotnet
	ruby
	php
	rust
)

// frame is a frame of a trace. Its file has neither line nor column.
type frame struct {
	function, file string
	language       language
}

// scan is one pass over a trace.
type scan struct {
	lines lines
	// errorType is the type of the exception, and headline the line that names it.
	errorType, headline string
	// frames are the app's frames, in the order of the trace: the innermost first, or, with
	// outermostFirst, last.
	frames         [MaxFrames]frame
	numFrames      int
	outermostFirst bool
	mangled        bool
	causes         causes
	// section is the part of the trace to which the next frames belong.
	section section
	// foundFrame reports whether there was a frame, of the app or not.
	foundFrame bool

	// previous is the previous line, which names the function in Go.
	previous string
	// pending is a frame of Rust whose file is on the next line.
	pending   frame
	isPending bool

	isRust, isGo bool
	// thrownIn is the file of the next frame in PHP.
	thrownIn string
	// afterPython reports whether the previous line named a frame of Python. This one can
	// quote its code.
	afterPython bool
}

// section is a part of a trace.
type section uint8

const (
	sectionThrown section = iota
	sectionCause
	sectionOther
)

// cause is a cause of the exception.
type cause struct {
	errorType, headline string
	// top is the innermost frame of the app, if hasTop.
	top    frame
	hasTop bool
}

type causes struct {
	list [MaxCauses]cause
	n    int
}

// add adds a cause, and reports whether there was room for it.
func (c *causes) add(errorType, headline string) bool {
	if c.n == MaxCauses {
		return false
	}
	c.list[c.n] = cause{errorType: errorType, headline: headline}
	c.n++
	return true
}

func (s *scan) run() {
	for {
		line, indent, more := s.lines.next()
		if !more {
			break
		}
		if line == "" {
			s.afterPython = false
			continue
		}
		if !s.scanLine(line, indent) {
			break
		}
		s.previous = line
	}
	s.flush()
}

// scanLine reads a line, and reports whether to continue.
func (s *scan) scanLine(line string, indent int) bool {
	if s.isPending && !strings.HasPrefix(line, "at ") {
		s.flush()
	}
	switch c := line[0]; {
	case c == 'a' && strings.HasPrefix(line, "at "):
		if s.isPending || !s.isFull() {
			s.atFrame(line[len("at "):])
		}
		return true
	case c == '#' && s.phpFrame(line):
		return true
	case c >= '0' && c <= '9' && s.rustFrame(line):
		return true
	case (c == 'F' || c == '|' || c == '+') && s.pythonFrame(line):
		return true
	case indent > 0 && s.goFrame(line):
		return true
	case s.afterPython:
		if indent >= 4 {
			return true // the code of the frame, and the marks below it
		}
		s.pythonType(line)
		return true
	case s.rubyFrame(line):
		return true
	case s.geckoFrame(line):
		return true
	}
	return s.scanHeader(line)
}

// scanHeader reads a line that is not a frame, and reports whether to continue.
func (s *scan) scanHeader(line string) bool {
	switch {
	case strings.HasPrefix(line, "Caused by: "), strings.HasPrefix(line, "[cause]: "):
		_, headline, _ := strings.Cut(line, ": ")
		if s.causes.add(parseType(headline, true), headline) {
			s.section = sectionCause
		} else {
			s.section = sectionOther
		}
		return true
	case strings.HasPrefix(line, "Suppressed: "):
		s.section = sectionOther
		return true
	case strings.HasPrefix(line, "---> "):
		headline := line[len("---> "):]
		s.causes.add(parseType(headline, true), headline)
		return true
	case strings.HasPrefix(line, "Traceback (most recent call last)"):
		s.beginPythonException()
		return true
	case strings.HasPrefix(line, "goroutine ") && strings.HasSuffix(line, ":"):
		if s.isGo {
			return false // the next goroutine begins
		}
		s.isGo = true
		return true
	case line == "stack backtrace:", strings.HasPrefix(line, "thread '") && strings.Contains(line, "panicked at"):
		s.isRust = true
		if s.errorType == "" && line != "stack backtrace:" {
			s.errorType, s.headline = "panic", line
		}
		return true
	}
	if s.foundFrame || s.lines.seen > maxHeader || s.errorType != "" {
		return true
	}
	if errorType := parseType(line, false); errorType != "" {
		s.errorType, s.headline = errorType, line
		if _, headline, hasCause := strings.Cut(line, " ---> "); hasCause {
			s.causes.add(parseType(headline, true), headline)
		}
	}
	s.recordThrownIn(line)
	return true
}

// isFull reports whether further frames of the section do not count.
func (s *scan) isFull() bool {
	switch s.section {
	case sectionThrown:
		return s.numFrames == MaxFrames && !s.outermostFirst
	case sectionCause:
		return s.causes.list[s.causes.n-1].hasTop
	default:
		return true
	}
}

// addFrame adds a frame if it is of the app.
func (s *scan) addFrame(f frame) {
	s.foundFrame = true
	if s.isFull() {
		return
	}
	if s.section == sectionCause {
		if c := &s.causes.list[s.causes.n-1]; inApp(&f) {
			c.top, c.hasTop = f, true
		}
		return
	}
	for i := range s.numFrames {
		if s.frames[i].function != f.function || s.frames[i].file != f.file {
			continue
		}
		if s.outermostFirst { // of equal frames, the innermost counts
			copy(s.frames[i:s.numFrames], s.frames[i+1:s.numFrames])
			s.frames[s.numFrames-1] = f
		}
		return
	}
	if !inApp(&f) {
		return
	}
	if s.numFrames == MaxFrames {
		copy(s.frames[:], s.frames[1:])
		s.numFrames--
	}
	s.frames[s.numFrames] = f
	s.numFrames++
}

// flush adds the pending frame, which has no file.
func (s *scan) flush() {
	if s.isPending {
		s.isPending = false
		s.addFrame(s.pending)
	}
}

// beginPythonException begins Python's next exception. The one before it was its cause.
func (s *scan) beginPythonException() {
	if s.outermostFirst && s.foundFrame {
		if s.causes.add(s.errorType, s.headline) && s.numFrames > 0 {
			c := &s.causes.list[s.causes.n-1]
			c.top, c.hasTop = s.frames[s.numFrames-1], true
		}
		s.errorType, s.headline, s.numFrames, s.foundFrame = "", "", 0, false
	}
	s.outermostFirst = true
}

// anyMangled reports whether a name of a JavaScript function is minified.
func (s *scan) anyMangled() bool {
	for i := range s.numFrames {
		f := &s.frames[i]
		if name := lastName(trimScriptName(f.function)); f.language == javaScript && name != "" && len(name) < minName {
			return true
		}
	}
	return false
}
