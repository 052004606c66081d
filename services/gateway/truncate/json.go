// Package truncate makes alerts and other JSON objects fit into a number of bytes,
// because a model's context has no room for more.
//
// It cuts long fields first, and then leaves out objects and counts them. It is pure. Of
// the objects it knows only which fields are identifiers.
package truncate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// limits bounds the fields of an object.
type limits struct {
	// text is the number of characters of a text, list the number of elements of a list.
	text, list int
	// depth is how deep objects and lists may be nested.
	depth int
}

// limitSteps are the limits that are tried in this order until everything fits.
var limitSteps = []limits{{1000, 50, 8}, {300, 20, 6}, {120, 8, 5}}

// minFields is the number of fields of an object that limitSteps keep. Tocsin's own
// objects have fewer.
const minFields = 24

// maxIdentifier is the length up to which limitSteps keep an identifier, in bytes.
const maxIdentifier = 256

// identifiers are the fields that are kept whole or emptied: a part of an identifier
// identifies nothing.
var identifiers = []string{"id", "dedup_key", "correlation_id", "rule_id", "revises", "resolves", "inhibited_by", "session_id"}

// List returns the first objects that fit into a list of size bytes, as Join writes it.
// It cuts long fields no more than it takes for all objects to fit, and then leaves out
// objects at the end. The first object is always kept and cut until it fits.
func List(objects []json.RawMessage, size int) []json.RawMessage {
	if listSize(objects) <= size {
		return objects
	}
	var smaller []json.RawMessage
	for _, l := range limitSteps {
		smaller = smaller[:0]
		left := size - (len("[]") - len(","))
		for _, o := range objects {
			small := l.apply(o)
			if left -= len(small) + 1; left < 0 {
				break
			}
			smaller = append(smaller, small)
		}
		if len(smaller) == len(objects) {
			return smaller
		}
	}
	if len(smaller) == 0 {
		return []json.RawMessage{Object(objects[0], size-len("[]"))}
	}
	return smaller
}

// Object cuts the long fields of one object no more than it takes for size bytes. It
// returns null if nothing else fits.
func Object(object json.RawMessage, size int) json.RawMessage {
	if len(object) <= size {
		return object
	}
	for _, l := range limitSteps {
		if small := l.apply(object); len(small) <= size {
			return small
		}
	}
	for l := limitSteps[len(limitSteps)-1]; l.depth > 0; l = (limits{l.text / 2, l.list / 2, l.depth - 1}) {
		if small := l.apply(object); len(small) <= size {
			return small
		}
	}
	return json.RawMessage("null")
}

// listSize returns the length of a list of objects.
func listSize(objects []json.RawMessage) int {
	size := len("[]") + max(len(objects)-1, 0)
	for _, o := range objects {
		size += len(o)
	}
	return size
}

// apply returns an object within the limits.
func (l limits) apply(object json.RawMessage) json.RawMessage {
	w := writer{limits: l, in: object, out: make([]byte, 0, min(len(object), 4096))}
	w.value("", 1)
	return w.out
}

// belowSteps reports whether the limits are stricter than every one of limitSteps.
func (l limits) belowSteps() bool { return l.depth < limitSteps[len(limitSteps)-1].depth }

// writer copies a JSON value within limits. Its methods read the value that begins at i
// and leave i behind it.
type writer struct {
	limits
	in  []byte
	i   int
	out []byte
}

// value copies the value of a field of that name. For a list it returns how many
// elements it left out.
func (w *writer) value(name string, depth int) (leftOut int) {
	switch b := w.in[w.i]; {
	case b == '"':
		w.text(name)
	case (b == '{' || b == '[') && depth > w.depth:
		w.skip()
		w.out = append(w.out, `"…"`...)
	case b == '{':
		w.object(depth)
	case b == '[':
		return w.list(depth)
	default:
		begin := w.i
		w.skip()
		w.out = append(w.out, w.in[begin:w.i]...)
	}
	return 0
}

func (w *writer) text(name string) {
	begin := w.i
	w.skip()
	raw := w.in[begin:w.i]
	maxBytes, identifier := w.limits.text, slices.Contains(identifiers, name)
	if identifier && !w.belowSteps() {
		maxBytes = max(maxBytes, maxIdentifier)
	}
	if len(raw)-len(`""`) <= maxBytes {
		w.out = append(w.out, raw...)
		return
	}
	if identifier {
		w.out = append(w.out, `""`...)
		return
	}
	if end := cutAt(raw, max(w.limits.text, 1)); end < len(raw) {
		w.out = append(append(w.out, raw[:end]...), `…"`...)
		return
	}
	w.out = append(w.out, raw...)
}

// cutAt returns where to cut a JSON string so that with an ellipsis it has at most limit
// characters, or its length if it has no more. It never cuts inside a character or an
// escape.
func cutAt(raw []byte, limit int) int {
	end := 0
	for i, n := 1, 0; i < len(raw)-1; n++ {
		if n == limit-1 {
			end = i
		}
		if n == limit {
			return end
		}
		switch {
		case raw[i] == '\\' && raw[i+1] == 'u':
			i += len(`\u0000`)
		case raw[i] == '\\':
			i += len(`\n`)
		default:
			_, size := utf8.DecodeRune(raw[i:])
			i += size
		}
	}
	return len(raw)
}

func (w *writer) object(depth int) {
	maxFields := max(w.limits.list, minFields)
	if w.belowSteps() {
		maxFields = max(w.limits.list, 1)
	}
	w.out = append(w.out, '{')
	w.i++
	n, leftOut := 0, 0
	comma := func() {
		if n++; n > 1 {
			w.out = append(w.out, ',')
		}
	}
	for w.in[w.i] != '}' {
		if w.in[w.i] == ',' {
			w.i++
		}
		begin := w.i
		w.skip()
		key := w.in[begin:w.i]
		w.i++ // the colon
		if n >= maxFields && (depth > 1 || w.belowSteps()) {
			w.skip()
			leftOut++
			continue
		}
		comma()
		name := fieldName(key)
		if len(name) > max(w.limits.text, 1) {
			name = sanitize.Cut(name, max(w.limits.text, 1))
			w.out = appendText(w.out, name)
		} else {
			w.out = append(w.out, key...)
		}
		w.out = append(w.out, ':')
		if n := w.value(name, depth+1); n > 0 {
			w.out = appendText(append(w.out, ','), name+"_left_out")
			w.out = strconv.AppendInt(append(w.out, ':'), int64(n), 10)
		}
	}
	w.i++
	if leftOut > 0 {
		comma()
		w.out = appendText(append(w.out, `"…":`...), fmt.Sprintf("%d more", leftOut))
	}
	w.out = append(w.out, '}')
}

// fieldName decodes the name of a field.
func fieldName(key []byte) string {
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key[1 : len(key)-1])
	}
	var name string
	if json.Unmarshal(key, &name) != nil { // not what encoding/json writes
		return "…"
	}
	return name
}

func (w *writer) list(depth int) (leftOut int) {
	w.out = append(w.out, '[')
	w.i++
	for n := 0; w.in[w.i] != ']'; n++ {
		if w.in[w.i] == ',' {
			w.i++
		}
		if n >= w.limits.list {
			w.skip()
			leftOut++
			continue
		}
		if n > 0 {
			w.out = append(w.out, ',')
		}
		w.value("", depth+1)
	}
	w.i++
	w.out = append(w.out, ']')
	return leftOut
}

// skip moves i behind the value that begins there.
func (w *writer) skip() {
	for depth := 0; ; {
		switch w.in[w.i] {
		case '"':
			for w.i++; w.in[w.i] != '"'; w.i++ {
				if w.in[w.i] == '\\' {
					w.i++
				}
			}
			w.i++
		case '{', '[':
			depth++
			w.i++
		case '}', ']':
			depth--
			w.i++
		case ',', ':':
			w.i++
		default: // a number, true, false or null
			for w.i < len(w.in) && w.in[w.i] != ',' && w.in[w.i] != '}' && w.in[w.i] != ']' {
				w.i++
			}
		}
		if depth == 0 {
			return
		}
	}
}

// appendText appends a text as JSON, with <, > and & as they are.
func appendText(out []byte, text string) []byte {
	encoded, err := encode(text)
	if err != nil { // a text can always be written
		return append(out, `"…"`...)
	}
	return append(out, encoded...)
}
