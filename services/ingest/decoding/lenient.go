package decoding

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Lenient returns options for JSON as many programs in many languages write it. Lone
// surrogates, as in texts that JavaScript cut, become U+FFFD; of a duplicate name the
// later value counts.
func Lenient() json.Options {
	return json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// Text is a string, or the text of a number or boolean. Any other value is read as an
// empty one. It is a copy.
type Text string

// UnmarshalJSONFrom reads any value.
func (t *Text) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	s, err := ReadText(dec)
	*t = Text(s)
	return err
}

// ReadText reads any value as [Text] does.
func ReadText(dec *jsontext.Decoder) (string, error) {
	v, err := dec.ReadValue()
	if err != nil {
		return "", err
	}
	switch v.Kind() {
	case '"':
		if inner := v[1 : len(v)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
			return string(inner), nil
		}
		s, _ := jsontext.AppendUnquote(nil, v) // the decoder has checked it, except for invalid UTF-8
		return string(s), nil
	case '0', 't', 'f':
		return string(v), nil
	default:
		return "", nil
	}
}

// Object refuses every value but a JSON object.
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

// Malformed words an error of reading for a sender, without the Go types that it was read
// into.
func Malformed(err error) error {
	var typed *json.SemanticError
	for errors.As(err, &typed) && typed.Err != nil {
		err = typed.Err
	}
	return fmt.Errorf("malformed JSON: %w", err)
}
