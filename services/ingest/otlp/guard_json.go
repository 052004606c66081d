package otlp

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxLevels is how deep objects and arrays may be nested: an outermost attribute value is
// about twelve levels deep, and each value within a value adds four.
const maxLevels = 12 + 4*maxDepth

// lenient are the options that pdata's JSON decoder uses too.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// json counts the objects of a request. Each corresponds to one protobuf message.
func (g *guard) json(data []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(data), lenient)
	if d.PeekKind() != '{' {
		if _, err := d.ReadToken(); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return errors.New("it must be an object")
	}
	// lists says of each open array whether its objects are items.
	var lists [maxLevels + 1]bool
	items := false // whether the last member name was that of a list of items
	for {
		kind := d.PeekKind()
		switch kind {
		case '{', '[':
			if err := g.open(d, kind, &lists, items); err != nil {
				return err
			}
		case '"':
			text, err := d.ReadValue()
			if err != nil {
				return err
			}
			in, position := d.StackIndex(d.StackDepth())
			if in == '[' {
				err = g.numberList(1)
			} else if position%2 == 1 { // a name was just read
				items, err = namesItems(text)
			}
			if err != nil {
				return err
			}
		default:
			if in, _ := d.StackIndex(d.StackDepth()); in == '[' && kind != ']' {
				if err := g.numberList(1); err != nil {
					return err
				}
			}
			if _, err := d.ReadToken(); err != nil {
				return err
			}
			if d.StackDepth() == 0 {
				return g.end(d)
			}
		}
	}
}

// open enters an object or an array.
func (g *guard) open(d *jsontext.Decoder, kind jsontext.Kind, lists *[maxLevels + 1]bool, items bool) error {
	depth := d.StackDepth()
	if kind == '{' {
		if depth > 0 && lists[depth] {
			if err := g.item(); err != nil {
				return err
			}
		}
		if err := g.message(); err != nil {
			return err
		}
	}
	if depth+1 > maxLevels {
		return tooDeep()
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	lists[depth+1] = kind == '[' && items
	return nil
}

// end checks that nothing follows the request.
func (*guard) end(d *jsontext.Decoder) error {
	switch _, err := d.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	default:
		return errors.New("more data follows the object")
	}
}

// namesItems reports whether a quoted name is that of a list of items, in any spelling
// that the decoder accepts.
func namesItems(quoted []byte) (bool, error) {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		name, err := jsontext.AppendUnquote(nil, quoted)
		if err != nil {
			return false, err
		}
		return isItems(name), nil
	}
	return isItems(quoted[1 : len(quoted)-1]), nil
}

func isItems(name []byte) bool {
	switch string(name) {
	case "logRecords", "log_records", "spans", "dataPoints", "data_points":
		return true
	default:
		return false
	}
}
