// Package loose reads JSON as many programs in many languages write it: a
// number where a text was meant, half of a surrogate pair, a name twice. It
// says how to read such values, and not what they mean.
package loose

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Options returns how to read: texts that JavaScript cut hold lone surrogates,
// which become U+FFFD, and of a name that stands twice the later one counts.
func Options() json.Options {
	return json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// Text is a string, or a number or boolean as it is written. Anything else is
// read as none. It is a copy.
type Text string

// UnmarshalJSONFrom reads any value.
func (t *Text) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	s, err := Read(dec)
	*t = Text(s)
	return err
}

// Read reads any value as Text does.
func Read(dec *jsontext.Decoder) (string, error) {
	v, err := dec.ReadValue()
	if err != nil {
		return "", err
	}
	switch v.Kind() {
	case '"':
		if inner := v[1 : len(v)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
			return string(inner), nil
		}
		s, _ := jsontext.AppendUnquote(nil, v) // the decoder has checked it, but for bytes that are no text
		return string(s), nil
	case '0', 't', 'f':
		return string(v), nil
	default:
		return "", nil
	}
}

// Object is an object that must be one.
type Object[T any] struct{ into *T }

// NewObject reads an object into v.
func NewObject[T any](v *T) *Object[T] { return &Object[T]{v} }

// UnmarshalJSONFrom reads an object, and refuses any other value.
func (o *Object[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		if err := dec.SkipValue(); err != nil {
			return err
		}
		return errors.New("it must be a JSON object")
	}
	return json.UnmarshalDecode(dec, o.into)
}

// Malformed is an error of reading in words for a sender: what is wrong, without
// the types of ours that it was read into.
func Malformed(err error) error {
	var typed *json.SemanticError
	for errors.As(err, &typed) && typed.Err != nil {
		err = typed.Err
	}
	return fmt.Errorf("malformed JSON: %w", err)
}
