// Package stack finds what distinguishes one error from another in a stack trace: the type
// of the exception and the functions of the app that were running, without what differs
// between occurrences, builds and machines.
//
// It reads the traces of V8 (Chrome, Node), Firefox and Safari, Python, Go, Java and
// Kotlin, .NET, Ruby, PHP and Rust, line by line, in one pass, and decides for each frame
// whether it is of the app: node_modules, site-packages, a module cache, a standard library
// and the like are not. It uses no source maps, so a mangled name counts as none. A key is
// made of a type, and of functions with their files, without line, column, origin, query, a
// build's hash or a path on a disk.
//
// It has no memory and no clock, and doesn't know what the key is for. The writer of a
// trace can neither slow it down nor make the key grow: it reads MaxScan bytes and MaxLines
// lines, and uses MaxFrames frames.
package stack

import "strings"

// Bounds. Traces that differ only beyond them have one key.
const (
	// MaxScan is how much of a trace is read, in bytes.
	MaxScan = 16 << 10
	// MaxLines is how many of its lines are read.
	MaxLines = 300
	// MaxFrames is how many frames of the app are used, the innermost, each once: the way
	// to a function, or the depth of a recursion, is not the error.
	MaxFrames = 6
	// MaxCauses is how many causes of the exception are used, each with its innermost
	// frame.
	MaxCauses = 3
	// maxHeader is how many lines are searched for the type of what was thrown before
	// the first frame.
	maxHeader = 12
	// maxPart is the longest type, function or file in a key, in bytes; the rest is
	// left out.
	maxPart = 200
)

// MaxKey is the longest key, in bytes.
const MaxKey = (maxPart + 2) * (1 + 3*MaxFrames + 4*MaxCauses) // a file may take two parts

// Trace describes what a key was made of.
type Trace struct {
	// Type is that of the exception, empty if the trace is not of one, such as a logged
	// line with its place.
	Type string
	// Words is the line of the text that names the type, empty where none does.
	Words string
	// Frames is the number of frames of the app in the key, Named the number of those with
	// a meaningful name.
	Frames, Named int
	// Placed reports whether one of them has a file. Without one, the text that looks like
	// frames may be words.
	Placed bool
	// Causes are the words of causes whose type is that of many errors, else empty: a
	// failing query is distinguished by them, whatever was thrown for it.
	Causes [MaxCauses]string
	// top is the innermost frame of the app in the key.
	top []byte
}

// Vague reports whether the key alone does not identify the error, so that the words are
// needed: its type is common, or it has none, or no function has a name. Otherwise all
// errors that one function throws for an app (a wrapper of fetch, an assertion) would be
// one.
func (t Trace) Vague() bool { return t.Named == 0 || t.Type == "" || common(t.Type) }

// Top returns the innermost frame of the app as a person would write it, or empty.
func (t Trace) Top() string {
	function, file, _ := strings.Cut(string(t.top), "\t")
	switch {
	case function == "":
		return file
	case file == "":
		return function
	default:
		return function + " (" + file + ")"
	}
}

// Append appends the key of a trace to dst, nothing if it has no frame of the app. message
// is the error's message: browsers other than Chromium name the type only there. Top is
// good as long as dst is unchanged.
func Append(dst []byte, text, message string) ([]byte, Trace) {
	s := scan{lines: lines{rest: text[:min(len(text), MaxScan)]}}
	s.all()
	t := Trace{Type: s.kind, Words: s.words}
	if t.Type == "" {
		t.Type = uncaught(message)
	}
	if s.kept == 0 {
		return dst, t
	}
	k := key{out: dst, start: len(dst)}
	k.part(t.Type)
	k.out = append(k.out, '\n')
	s.mangled = s.anyMangled()
	for i := range s.kept {
		f := &s.frames[i]
		if s.outermostFirst {
			f = &s.frames[s.kept-1-i]
		}
		k.frame(f, s.mangled)
	}
	t.Frames, t.Named, t.Placed = k.n, k.named, k.placed
	begin, end := k.bounds(0)
	for i := range s.causes.n {
		c := &s.causes.of[i]
		if c.kind == "" || common(c.kind) {
			t.Causes[i] = c.words
		}
		k.out = append(k.out, '<')
		k.part(c.kind)
		k.out = append(k.out, '\t')
		if c.found {
			k.name(&c.top, s.mangled)
			k.out = append(k.out, '\t')
			k.out = appendFile(k.out, c.top.file)
		}
		k.out = append(k.out, '\n')
	}
	t.top = k.out[begin:end]
	return k.out, t
}

// key is one that is being written.
type key struct {
	out   []byte
	start int
	// ends are where the frames end that were written, the first behind the type.
	ends     [MaxFrames + 1]int
	n, named int
	placed   bool
}

// part writes a text of the trace, cut.
func (k *key) part(text string) { k.out = append(k.out, text[:min(len(text), maxPart)]...) }

// frame writes a frame, unless it is like one that was written: closures of one
// function are.
func (k *key) frame(f *frame, mangled bool) {
	if k.n == 0 {
		k.ends[0] = len(k.out)
	}
	begin := len(k.out)
	named := k.name(f, mangled)
	k.out = append(k.out, '\t')
	file := len(k.out)
	k.out = appendFile(k.out, f.file)
	k.placed = k.placed || len(k.out) > file
	if file == len(k.out) && !named {
		k.out = k.out[:begin] // nothing is known of it
		return
	}
	k.out = append(k.out, '\n')
	for i := range k.n {
		if string(k.out[k.ends[i]:k.ends[i+1]]) == string(k.out[begin:]) {
			k.out = k.out[:begin]
			return
		}
	}
	k.n++
	k.ends[k.n] = len(k.out)
	if named {
		k.named++
	}
}

// name writes the name of a frame's function, and reports whether there is one.
func (k *key) name(f *frame, mangled bool) bool {
	begin := len(k.out)
	k.out = appendName(k.out, f, mangled)
	if len(k.out) > begin+maxPart {
		k.out = k.out[:begin+maxPart]
	}
	return len(k.out) > begin
}

// bounds are where a frame that was written begins and ends, without the line's
// end.
func (k *key) bounds(i int) (begin, end int) {
	if i >= k.n {
		return 0, 0
	}
	return k.ends[i], k.ends[i+1] - 1
}
