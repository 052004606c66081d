package stack

import "strings"

// lines walks the lines of a text.
type lines struct {
	rest string
	seen int
}

// next is the next line without the white space around it, and how much was before
// it. There is none after MaxLines.
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

// language is the language of a frame, where it matters.
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

// frame is a frame of the text. File has neither line nor column.
type frame struct {
	function, file string
	language       language
}

// scan is one pass over a trace.
type scan struct {
	lines lines
	// kind is the type of the exception, words its line.
	kind, words string
	// frames are those of the app, the innermost first, or last.
	frames         [MaxFrames]frame
	kept           int
	outermostFirst bool
	mangled        bool
	causes         causes
	// section is what the next frames are of.
	section section
	any     bool // a frame, of the app or not, was found

	before      string // the line before, of Go
	pending     frame  // a frame whose file is still to come, of Rust
	isPending   bool
	rust, goOn  bool
	thrownIn    string // where PHP reports whether it was thrown
	afterPython bool   // the line before named a frame, and this one quotes the code
}

type section uint8

const (
	ofThrown section = iota
	ofCause
	ofOther
)

type cause struct {
	// words is the line that says it.
	kind, words string
	top         frame
	found       bool
}

type causes struct {
	of [MaxCauses]cause
	n  int
}

// begin notes that what follows is of a cause.
func (c *causes) begin(kind, words string) bool {
	if c.n == MaxCauses {
		return false
	}
	c.of[c.n] = cause{kind: kind, words: words}
	c.n++
	return true
}

func (s *scan) all() {
	for {
		line, indent, more := s.lines.next()
		if !more {
			break
		}
		if line == "" {
			s.afterPython = false
			continue
		}
		if !s.line(line, indent) {
			break
		}
		s.before = line
	}
	s.flush()
}

// line takes a line, and reports whether to continue.
func (s *scan) line(line string, indent int) bool {
	if s.isPending && !strings.HasPrefix(line, "at ") {
		s.flush()
	}
	switch c := line[0]; {
	case c == 'a' && strings.HasPrefix(line, "at "):
		if s.isPending || !s.full() {
			s.at(line[len("at "):])
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
			return true // the code itself, and the marks below it
		}
		s.pythonEnd(line)
		return true
	case s.rubyFrame(line):
		return true
	case s.geckoFrame(line):
		return true
	}
	return s.header(line)
}

// header takes a line that is no frame.
func (s *scan) header(line string) bool {
	switch {
	case strings.HasPrefix(line, "Caused by: "), strings.HasPrefix(line, "[cause]: "):
		_, words, _ := strings.Cut(line, ": ")
		if s.causes.begin(typeOf(words, true), words) {
			s.section = ofCause
		} else {
			s.section = ofOther
		}
		return true
	case strings.HasPrefix(line, "Suppressed: "):
		s.section = ofOther
		return true
	case strings.HasPrefix(line, "---> "):
		words := line[len("---> "):]
		s.causes.begin(typeOf(words, true), words)
		return true
	case strings.HasPrefix(line, "Traceback (most recent call last)"):
		s.again()
		return true
	case strings.HasPrefix(line, "goroutine ") && strings.HasSuffix(line, ":"):
		if s.goOn {
			return false // of another goroutine
		}
		s.goOn = true
		return true
	case line == "stack backtrace:", strings.HasPrefix(line, "thread '") && strings.Contains(line, "panicked at"):
		s.rust = true
		if s.kind == "" && line != "stack backtrace:" {
			s.kind, s.words = "panic", line
		}
		return true
	}
	if s.any || s.lines.seen > maxHeader || s.kind != "" {
		return true
	}
	if kind := typeOf(line, false); kind != "" {
		s.kind, s.words = kind, line
		if _, words, inner := strings.Cut(line, " ---> "); inner {
			s.causes.begin(typeOf(words, true), words)
		}
	}
	s.thrownAt(line)
	return true
}

// full reports whether no further frame counts.
func (s *scan) full() bool {
	switch s.section {
	case ofThrown:
		return s.kept == MaxFrames && !s.outermostFirst
	case ofCause:
		return s.causes.of[s.causes.n-1].found
	default:
		return true
	}
}

// keep adds a frame if it is of the app.
func (s *scan) keep(f frame) {
	s.any = true
	if s.full() {
		return
	}
	if s.section == ofCause {
		if c := &s.causes.of[s.causes.n-1]; inApp(&f) {
			c.top, c.found = f, true
		}
		return
	}
	for i := range s.kept {
		if s.frames[i].function != f.function || s.frames[i].file != f.file {
			continue
		}
		if s.outermostFirst { // nearer to what was thrown than it seemed
			copy(s.frames[i:s.kept], s.frames[i+1:s.kept])
			s.frames[s.kept-1] = f
		}
		return
	}
	if !inApp(&f) {
		return
	}
	if s.kept == MaxFrames {
		copy(s.frames[:], s.frames[1:])
		s.kept--
	}
	s.frames[s.kept] = f
	s.kept++
}

// flush adds a frame without a file.
func (s *scan) flush() {
	if s.isPending {
		s.isPending = false
		s.keep(s.pending)
	}
}

// again begins with Python's next exception, which the one before was a cause of.
func (s *scan) again() {
	if s.outermostFirst && s.any {
		if s.causes.begin(s.kind, s.words) && s.kept > 0 {
			c := &s.causes.of[s.causes.n-1]
			c.top, c.found = s.frames[s.kept-1], true
		}
		s.kind, s.words, s.kept, s.any = "", "", 0, false
	}
	s.outermostFirst = true
}

// anyMangled reports whether names of JavaScript are minified.
func (s *scan) anyMangled() bool {
	for i := range s.kept {
		f := &s.frames[i]
		if name := lastName(bareJS(f.function)); f.language == javaScript && name != "" && len(name) < minName {
			return true
		}
	}
	return false
}
