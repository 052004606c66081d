// Package truncate makes alerts and other JSON objects fit into a number of bytes,
// because a model's context has no room for more.
//
// It cuts long fields first and then leaves objects out, and says how many. It is
// pure, and knows nothing of what the objects mean but which of their fields are
// identifiers.
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

// cut says what is left of long fields.
type cut struct {
	// text is how many characters a text has, list how many elements a list.
	text, list int
	// depth is how many objects and lists may be within each other.
	depth int
}

// cuts are tried in this order, until all fits.
var cuts = []cut{{1000, 50, 8}, {300, 20, 6}, {120, 8, 5}}

// minFields is how many fields of an object are left at least, where an object has
// any at all: our own have fewer.
const minFields = 24

// maxIdentifier is how long an identifier is kept, in bytes, as long as less than
// everything has to go.
const maxIdentifier = 256

// identifiers are the fields that are whole or empty: a part of one names nothing.
var identifiers = []string{"id", "dedup_key", "correlation_id", "rule_id", "revises", "resolves", "inhibited_by"}

// List returns as many objects as have room in a list of size bytes, as Join writes
// it, from the front on. It cuts long fields as little as it takes for all; where
// that is not enough, it leaves out objects at the end. The first is never left out:
// it is cut until it fits.
func List(objects []json.RawMessage, size int) []json.RawMessage {
	if sum(objects) <= size {
		return objects
	}
	var smaller []json.RawMessage
	for _, c := range cuts {
		smaller = smaller[:0]
		left := size - (len("[]") - len(","))
		for _, o := range objects {
			small := c.apply(o)
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

// Object cuts the long fields of one object as little as it takes for size bytes. It
// is null where there is no room for anything else.
func Object(object json.RawMessage, size int) json.RawMessage {
	if len(object) <= size {
		return object
	}
	for _, c := range cuts {
		if small := c.apply(object); len(small) <= size {
			return small
		}
	}
	for c := cuts[len(cuts)-1]; c.depth > 0; c = (cut{c.text / 2, c.list / 2, c.depth - 1}) {
		if small := c.apply(object); len(small) <= size {
			return small
		}
	}
	return json.RawMessage("null")
}

// sum is how long a list of objects is.
func sum(objects []json.RawMessage) int {
	size := len("[]") + max(len(objects)-1, 0)
	for _, o := range objects {
		size += len(o)
	}
	return size
}

// apply returns an object with its long fields cut.
func (c cut) apply(object json.RawMessage) json.RawMessage {
	w := writer{cut: c, in: object, out: make([]byte, 0, min(len(object), 4096))}
	w.value("", 1)
	return w.out
}

// hard reports whether a cut is more than those of cuts, none of which was enough.
func (c cut) hard() bool { return c.depth < cuts[len(cuts)-1].depth }

// writer copies a JSON value, shorter. Its methods take what begins at i, and leave i
// behind it.
type writer struct {
	cut
	in  []byte
	i   int
	out []byte
}

// value copies the value of a field of that name, and returns how many elements of
// it were left out, where it is a list.
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
	most, whole := w.cut.text, slices.Contains(identifiers, name)
	if whole && !w.hard() {
		most = max(most, maxIdentifier)
	}
	if len(raw)-len(`""`) <= most {
		w.out = append(w.out, raw...)
		return
	}
	if whole {
		w.out = append(w.out, `""`...)
		return
	}
	if end := cutAt(raw, max(w.cut.text, 1)); end < len(raw) {
		w.out = append(append(w.out, raw[:end]...), `…"`...)
		return
	}
	w.out = append(w.out, raw...)
}

// cutAt returns where a text of JSON is cut so that with an ellipsis it has at most
// limit characters; its whole length where it has no more. It cuts through no
// character and no escape.
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
	most := max(w.cut.list, minFields)
	if w.hard() {
		most = max(w.cut.list, 1)
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
		if n >= most && (depth > 1 || w.hard()) {
			w.skip()
			leftOut++
			continue
		}
		comma()
		name := nameOf(key)
		if len(name) > max(w.cut.text, 1) {
			name = sanitize.Cut(name, max(w.cut.text, 1))
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

// nameOf decodes the name of a field.
func nameOf(key []byte) string {
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
		if n >= w.cut.list {
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

// skip goes on behind the value that begins at i.
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
