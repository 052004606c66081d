package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	strict "github.com/go-json-experiment/json"
	"github.com/tailscale/hujson"
)

// Bounds of a JSON file, in bytes and levels of nesting. Claude Code's state file, which
// also has its MCP servers, may be several megabytes large.
const (
	maxFile  = 16 << 20
	maxDepth = 1000
)

// document is a JSON file that may have comments and trailing commas. An edit replaces a
// span of its text, so the rest of the file keeps its formatting.
type document struct {
	src  []byte
	root hujson.Value
	// unit is one step of indentation, newline the line break. compact reports whether the
	// file is one line without spaces.
	unit, newline string
	compact       bool
}

// parse parses a file. An empty file counts as an empty object.
func parse(src []byte) (*document, error) {
	if len(bytes.TrimSpace(src)) == 0 {
		src = []byte("{}\n")
	}
	if err := checkBounds(src); err != nil {
		return nil, err
	}
	d := &document{unit: "  ", newline: "\n"}
	if err := d.reparse(src); err != nil {
		return nil, err
	}
	if bytes.Contains(src, []byte("\r\n")) {
		d.newline = "\r\n"
	}
	if root := members(&d.root); len(root.items) > 0 {
		if indent, ok := blanksOfLine(src, root.items[0].start); ok && indent != "" {
			d.unit = indent
		}
		d.compact = !bytes.ContainsRune(src[root.open:root.end], '\n')
	}
	return d, nil
}

// reparse sets the text of the document. It must be a JSON object.
func (d *document) reparse(src []byte) error {
	root, err := hujson.Parse(src)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	if _, ok := root.Value.(*hujson.Object); !ok {
		return errors.New("it is not a JSON object")
	}
	d.src, d.root = src, root
	return nil
}

// splice replaces a span of the text, and parses the document again.
func (d *document) splice(at, end int, text string) error {
	return d.reparse(bytes.Join([][]byte{d.src[:at], []byte(text), d.src[end:]}, nil))
}

// checkBounds refuses a file that would take too much memory or stack to parse.
func checkBounds(src []byte) error {
	if len(src) > maxFile {
		return fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	if hasByteOrderMark(src) {
		return errByteOrderMark
	}
	depth, text := 0, false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '/' && bytes.HasPrefix(src[i:], []byte("//")):
			i += max(bytes.IndexByte(src[i:], '\n'), 1)
		case c == '/' && bytes.HasPrefix(src[i:], []byte("/*")):
			i += max(bytes.Index(src[i+2:], []byte("*/"))+3, 1)
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// list is an object or an array as a span of the text, from its opening bracket to after
// its closing one.
type list struct {
	open, end int
	items     []item
	// trailing reports whether a comma follows the last item.
	trailing bool
}

// item is a member of an object or an element of an array: its span, which begins at a
// member's name, and the offset of the comma after it (or where one would be).
type item struct {
	start, end, comma int
	name              string
	value             *hujson.Value
}

// members returns the items of an object or an array. Other values have none.
func members(v *hujson.Value) list {
	l := list{open: v.StartOffset, end: v.EndOffset}
	add := func(first, value *hujson.Value, name string) {
		l.items = append(l.items, item{first.StartOffset, value.EndOffset, value.EndOffset + len(value.AfterExtra), name, value})
		l.trailing = value.AfterExtra != nil // of the last: see hujson.Object
	}
	switch c := v.Value.(type) {
	case *hujson.Object:
		for i := range c.Members {
			m := &c.Members[i]
			add(&m.Name, &m.Value, m.Name.Value.(hujson.Literal).String())
		}
	case *hujson.Array:
		for i := range c.Elements {
			add(&c.Elements[i], &c.Elements[i], "")
		}
	}
	return l
}

// member returns the index of a member of an object, or -1 if it is missing. A duplicate
// name is an error, because clients differ in which member they use.
func member(v *hujson.Value, name string) (int, error) {
	found := -1
	for i, it := range members(v).items {
		if it.name != name {
			continue
		}
		if found >= 0 {
			return -1, fmt.Errorf("it has %q twice", name)
		}
		found = i
	}
	return found, nil
}

// find returns the value at a path of names, or nil if it is missing. A value that is not
// of that kind is an error.
func (d *document) find(kind hujson.Kind, path ...string) (*hujson.Value, error) {
	v := &d.root
	for i, name := range path {
		n, err := member(v, name)
		if err != nil || n < 0 {
			return nil, err
		}
		v = members(v).items[n].value
		want := hujson.Kind('{')
		if i == len(path)-1 {
			want = kind
		}
		if v.Value.Kind() != want {
			what := map[hujson.Kind]string{'{': "an object", '[': "a list", '"': "a string"}[want]
			return nil, fmt.Errorf("its %q is not %s", strings.Join(path[:i+1], "."), what)
		}
	}
	return v, nil
}

// decode decodes a value. Names are case-sensitive, as in clients and unlike in
// encoding/json.
func decode(v *hujson.Value, into any) error {
	plain := v.Clone()
	plain.Standardize()
	return strict.Unmarshal(plain.Pack(), into)
}

// render returns the JSON of a value, for a line with that indentation.
func (d *document) render(value any, indent string, inline bool) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if !inline {
		e.SetIndent(indent, d.unit)
	}
	if err := e.Encode(value); err != nil {
		return "", err
	}
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\n", d.newline), nil
}
