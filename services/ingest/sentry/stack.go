package sentry

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxFrames is how many frames of an error's stacks are kept, the newest of each.
	maxFrames = 100
	// maxCauses is how many causes of an error are kept.
	maxCauses = 10
)

type exception struct {
	Type       text                 `json:"type"`
	Value      text                 `json:"value"`
	Stacktrace optional[stacktrace] `json:"stacktrace"`
}

type thread struct {
	Current    text                 `json:"current"`
	Crashed    text                 `json:"crashed"`
	Stacktrace optional[stacktrace] `json:"stacktrace"`
}

type stacktrace struct {
	// Frames are in the order of the calls: the newest is the last.
	Frames list[frame] `json:"frames"`
}

type frame struct {
	Function text `json:"function"`
	Module   text `json:"module"`
	Filename text `json:"filename"`
	AbsPath  text `json:"abs_path"`
	Line     text `json:"lineno"`
	Column   text `json:"colno"`
	InApp    text `json:"in_app"`
}

// UnmarshalJSONFrom reads a text or an object.
func (m *message) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return m.formatted.UnmarshalJSONFrom(dec)
	}
	var parts struct {
		Formatted text `json:"formatted"`
		Message   text `json:"message"`
	}
	err := json.UnmarshalDecode(dec, &parts)
	m.formatted, m.template = parts.Formatted, parts.Message
	return err
}

// title is the exception in one line.
func (x exception) title() string {
	switch {
	case x.Type == "":
		return string(x.Value)
	case x.Value == "":
		return string(x.Type)
	default:
		return string(x.Type) + ": " + string(x.Value)
	}
}

// frames are those of the exception, or of a message if an SDK sends them.
func (e *event) frames() list[frame] {
	if n := len(e.Exception); n > 0 {
		return e.Exception[n-1].Stacktrace.v.Frames
	}
	if frames := e.Stacktrace.v.Frames; len(frames) > 0 {
		return frames
	}
	for i := range e.Threads {
		if t := &e.Threads[i]; t.Crashed == "true" || t.Current == "true" || len(e.Threads) == 1 {
			return t.Stacktrace.v.Frames
		}
	}
	return nil
}

// stack is the frames as JavaScript prints them, the newest first, followed by those of
// the causes.
func (e *event) stack() string {
	var b strings.Builder
	left := e.write(&b, e.frames(), maxFrames)
	for i, n := len(e.Exception)-2, 0; i >= 0 && n < maxCauses; i, n = i-1, n+1 {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("Caused by: " + e.Exception[i].title())
		left = e.write(&b, e.Exception[i].Stacktrace.v.Frames, left)
	}
	return b.String()
}

// write adds at most left frames, and returns how many are left then.
func (e *event) write(b *strings.Builder, frames list[frame], left int) int {
	for i := len(frames) - 1; i >= 0 && left > 0; i-- {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("    at " + e.name(&frames[i]))
		if position := frames[i].position(); position != "" {
			b.WriteString(" (" + position + ")")
		}
		left--
	}
	return left
}

// name is the function, with its module if that says more than the file's name.
func (e *event) name(f *frame) string {
	name := string(f.Function)
	if name == "" || name == "?" {
		name = "<anonymous>"
	}
	switch e.Platform {
	case "javascript", "node", "":
		return name
	}
	if module := string(f.Module); module != "" && !strings.HasPrefix(name, module) {
		return module + "." + name
	}
	return name
}

// position is file:line:column, as far as it is known.
func (f *frame) position() string {
	position := first(f.Filename, f.AbsPath)
	if position == "" {
		return ""
	}
	for _, n := range []text{f.Line, f.Column} {
		if i, err := strconv.Atoi(string(n)); err != nil || i <= 0 {
			break
		}
		position += ":" + string(n)
	}
	return position
}

// source is the position of the newest frame of the app's own code, else of the newest
// frame.
func (e *event) source() string {
	frames := e.frames()
	for i := len(frames) - 1; i >= 0; i-- {
		if position := frames[i].position(); frames[i].InApp == "true" && position != "" {
			return position
		}
	}
	for i := len(frames) - 1; i >= 0; i-- {
		if position := frames[i].position(); position != "" {
			return position
		}
	}
	return ""
}
