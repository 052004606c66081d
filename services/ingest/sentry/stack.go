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
	Type       lenientText               `json:"type"`
	Value      lenientText               `json:"value"`
	Stacktrace lenientObject[stacktrace] `json:"stacktrace"`
}

type thread struct {
	Current    lenientText               `json:"current"`
	Crashed    lenientText               `json:"crashed"`
	Stacktrace lenientObject[stacktrace] `json:"stacktrace"`
}

type stacktrace struct {
	// Frames are in the order of the calls: the newest is the last.
	Frames objectList[frame] `json:"frames"`
}

type frame struct {
	Function lenientText `json:"function"`
	Module   lenientText `json:"module"`
	Filename lenientText `json:"filename"`
	AbsPath  lenientText `json:"abs_path"`
	Line     lenientText `json:"lineno"`
	Column   lenientText `json:"colno"`
	InApp    lenientText `json:"in_app"`
}

// UnmarshalJSONFrom reads a text or an object.
func (m *message) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return m.formatted.UnmarshalJSONFrom(dec)
	}
	var parts struct {
		Formatted lenientText `json:"formatted"`
		Message   lenientText `json:"message"`
	}
	err := json.UnmarshalDecode(dec, &parts)
	m.formatted, m.template = parts.Formatted, parts.Message
	return err
}

// title returns the exception in one line.
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

// frames returns the frames of the exception, or of a message if the SDK sends them.
func (e *event) frames() objectList[frame] {
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

// stack returns the frames as JavaScript prints them, the newest first, followed by those of
// the causes.
func (e *event) stack() string {
	var b strings.Builder
	left := e.writeFrames(&b, e.frames(), maxFrames)
	for i, n := len(e.Exception)-2, 0; i >= 0 && n < maxCauses; i, n = i-1, n+1 {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("Caused by: " + e.Exception[i].title())
		left = e.writeFrames(&b, e.Exception[i].Stacktrace.v.Frames, left)
	}
	return b.String()
}

// writeFrames writes at most limit frames, and returns how many more may be written.
func (e *event) writeFrames(b *strings.Builder, frames objectList[frame], limit int) int {
	for i := len(frames) - 1; i >= 0 && limit > 0; i-- {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("    at " + e.functionName(&frames[i]))
		if position := frames[i].position(); position != "" {
			b.WriteString(" (" + position + ")")
		}
		limit--
	}
	return limit
}

// functionName returns the function of a frame, with its module in languages other than
// JavaScript.
func (e *event) functionName(f *frame) string {
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

// position returns file:line:column, or as much of it as is known.
func (f *frame) position() string {
	position := firstNonEmpty(f.Filename, f.AbsPath)
	if position == "" {
		return ""
	}
	for _, n := range []lenientText{f.Line, f.Column} {
		if i, err := strconv.Atoi(string(n)); err != nil || i <= 0 {
			break
		}
		position += ":" + string(n)
	}
	return position
}

// source returns the position of the newest frame of the app's own code, else of the newest
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
