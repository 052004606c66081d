// Package stack finds in a stack trace what tells one error from another: the type
// of the exception and the functions of the app's own that were running, without
// what differs from one time, build or machine to the next.
//
// It reads the traces of V8 (Chrome, Node), Firefox and Safari, Python, Go, Java and
// Kotlin, .NET, Ruby, PHP and Rust, line by line, in one pass, and decides for each
// frame whether it is of the app: what is in node_modules, site-packages, a module
// cache, a standard library and the like is not. It uses no source maps, so a name
// that a minifier made counts as none. A key is made of a type, and of functions
// with their files, of which no line, column, origin, query, build's hash or place
// on a disk is left.
//
// It has no memory and no clock, and doesn't know what the key is for. Whoever
// writes a trace can neither slow it down nor make the key grow: it looks at
// MaxScan bytes and MaxLines lines, and takes in MaxFrames frames.
package stack

import "strings"

// Bounds. Traces that differ only beyond them have one key.
const (
	// MaxScan is how much of a trace is looked at, in bytes.
	MaxScan = 16 << 10
	// MaxLines is how many of its lines are.
	MaxLines = 300
	// MaxFrames is how many frames of the app count, the innermost, each once: how a
	// function was reached from further away, or how deep it called itself, is not
	// what is wrong with it.
	MaxFrames = 6
	// MaxCauses is how many exceptions count that the thrown one was caused by, each
	// with its innermost frame.
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

// Trace is what a key was made of.
type Trace struct {
	// Type is that of the exception, empty where the trace is not of one: a line that
	// somebody logged, with the place where.
	Type string
	// Words is the line of the text that names the type, empty where none does.
	Words string
	// Frames is how many frames of the app are in the key, and Named how many of them
	// have a name that says something.
	Frames, Named int
	// Placed reports whether one of them has a file: what else reads like frames may be words.
	Placed bool
	// Causes are the words of what it was caused by, where many errors are of a cause's
	// type, else empty: a failing query is reported by those, whatever was thrown for it.
	Causes [MaxCauses]string
	// top is the innermost frame of the app, as it stands in the key.
	top []byte
}

// Vague reports whether the key alone does not tell what went wrong, so that the words
// are to be asked: the type is one that many errors are of, or there is none, or no
// function is known by its name. What one function throws for all of an app (a wrapper
// of fetch, an assertion) would else be one error.
func (t Trace) Vague() bool { return t.Named == 0 || t.Type == "" || common(t.Type) }

// Top is the innermost frame of the app as a person would write it, or empty.
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

// Append appends the key of a trace to dst, nothing where it has no frame of the
// app. The message is what came with it: browsers other than Chromium name the type
// there alone. Top is good for as long as dst is unchanged.
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
