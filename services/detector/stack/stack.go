// Package stack turns a stack trace into a key that distinguishes one error from another. The
// key consists of the type of the exception and of the app's innermost functions with their
// files. It leaves out what differs between occurrences, builds and machines: line, column,
// origin, query, hashes made by a build, directories on a disk.
//
// The package reads the traces of V8 (Chrome, Node), Firefox and Safari, Python, Go, Java and
// Kotlin, .NET, Ruby, PHP and Rust, line by line, in one pass. Frames in node_modules,
// site-packages, a module cache, a standard library and the like do not belong to the app. It
// uses no source maps, so a mangled name counts as missing.
//
// The writer of a trace can neither slow it down nor make the key grow: it reads MaxScan bytes
// and MaxLines lines, and uses MaxFrames frames.
package stack

import "strings"

// Bounds. Traces that differ only beyond them have the same key.
const (
	// MaxScan is how much of a trace is read, in bytes.
	MaxScan = 16 << 10
	// MaxLines is how many of its lines are read.
	MaxLines = 300
	// MaxFrames is how many frames of the app are used: the innermost, each once. The depth
	// of a recursion does not distinguish errors.
	MaxFrames = 6
	// MaxCauses is how many causes of the exception are used, each with its innermost
	// frame.
	MaxCauses = 3
	// maxHeader is how many lines before the first frame are searched for the type of the
	// exception.
	maxHeader = 12
	// maxPart is how much of a type, function or file is in a key, in bytes.
	maxPart = 200
)

// MaxKey is the longest key, in bytes.
const MaxKey = (maxPart + 2) * (1 + 3*MaxFrames + 4*MaxCauses) // a file may take two parts

// Trace describes the trace of a key.
type Trace struct {
	// Type is the type of the exception. It is empty if none was thrown, as for a logged
	// line with its location.
	Type string
	// Headline is the line of the trace that names the type. It is empty if none does.
	Headline string
	// Frames is the number of frames of the app in the key. Named is the number of those
	// with a meaningful name.
	Frames, Named int
	// HasFile reports whether one of them has a file. If none has, lines of prose may have
	// been read as frames.
	HasFile bool
	// Causes are the headlines of the causes with a common type, and empty for the others.
	// Failed queries, for example, differ only in them.
	Causes [MaxCauses]string
	// top is the innermost frame of the app in the key.
	top []byte
}

// Vague reports whether the key alone does not identify the error, so that the message is
// needed: the type is common or missing, or no function has a name. One function can throw
// many errors of a common type, such as a wrapper of fetch, or an assertion.
func (t Trace) Vague() bool { return t.Named == 0 || t.Type == "" || isCommon(t.Type) }

// Top returns the innermost frame of the app as text for a person. It may be empty.
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

// Append appends the key of a trace to dst, or nothing if the trace has no frame of the app.
// message is the error's message: browsers other than Chromium name the type only there. The
// Trace is valid as long as dst is unchanged.
func Append(dst []byte, text, message string) ([]byte, Trace) {
	s := scan{lines: lines{rest: text[:min(len(text), MaxScan)]}}
	s.run()
	t := Trace{Type: s.errorType, Headline: s.headline}
	if t.Type == "" {
		t.Type = uncaughtType(message)
	}
	if s.numFrames == 0 {
		return dst, t
	}
	k := key{out: dst}
	k.writeText(t.Type)
	k.out = append(k.out, '\n')
	s.mangled = s.anyMangled()
	for i := range s.numFrames {
		f := &s.frames[i]
		if s.outermostFirst {
			f = &s.frames[s.numFrames-1-i]
		}
		k.writeFrame(f, s.mangled)
	}
	t.Frames, t.Named, t.HasFile = k.n, k.named, k.hasFile
	begin, end := k.bounds(0)
	for i := range s.causes.n {
		c := &s.causes.list[i]
		if c.errorType == "" || isCommon(c.errorType) {
			t.Causes[i] = c.headline
		}
		k.out = append(k.out, '<')
		k.writeText(c.errorType)
		k.out = append(k.out, '\t')
		if c.hasTop {
			k.writeName(&c.top, s.mangled)
			k.out = append(k.out, '\t')
			k.out = appendFile(k.out, c.top.file)
		}
		k.out = append(k.out, '\n')
	}
	t.top = k.out[begin:end]
	return k.out, t
}

// key is a key that is being written.
type key struct {
	out []byte
	// ends are the ends of the type and of each frame in out.
	ends [MaxFrames + 1]int
	// n is the number of frames, and named the number of those with a meaningful name.
	n, named int
	hasFile  bool
}

// writeText writes a text of the trace, up to maxPart bytes.
func (k *key) writeText(text string) { k.out = append(k.out, text[:min(len(text), maxPart)]...) }

// writeFrame writes a frame, unless an equal one was written. The closures of one function
// have equal frames.
func (k *key) writeFrame(f *frame, mangled bool) {
	if k.n == 0 {
		k.ends[0] = len(k.out)
	}
	begin := len(k.out)
	named := k.writeName(f, mangled)
	k.out = append(k.out, '\t')
	file := len(k.out)
	k.out = appendFile(k.out, f.file)
	k.hasFile = k.hasFile || len(k.out) > file
	if file == len(k.out) && !named {
		k.out = k.out[:begin] // it has neither name nor file
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

// writeName writes the name of a frame's function, and reports whether it is meaningful.
func (k *key) writeName(f *frame, mangled bool) bool {
	begin := len(k.out)
	k.out = appendName(k.out, f, mangled)
	if len(k.out) > begin+maxPart {
		k.out = k.out[:begin+maxPart]
	}
	return len(k.out) > begin
}

// bounds returns the begin and the end of a frame in out, without the end of the line.
func (k *key) bounds(i int) (begin, end int) {
	if i >= k.n {
		return 0, 0
	}
	return k.ends[i], k.ends[i+1] - 1
}
