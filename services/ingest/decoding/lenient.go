package decoding

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Lenient returns options that accept slightly invalid JSON. Lone surrogates, as in texts
// that JavaScript cut, become U+FFFD; of a duplicate name the last value counts.
func Lenient() json.Options {
	return json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// Text is a string that is read from a JSON string, number or boolean. Any other value is
// read as "".
type Text string

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (t *Text) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	s, err := ReadText(dec)
	*t = Text(s)
	return err
}

// ReadText reads the next value as a [Text]. The result is a copy.
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
		s, _ := jsontext.AppendUnquote(nil, v) // fails only for invalid UTF-8, which it replaces
		return string(s), nil
	case '0', 't', 'f':
		return string(v), nil
	default:
		return "", nil
	}
}

// Object refuses every value but a JSON object.
type Object[T any] struct{ into *T }

// NewObject returns a target for json.Unmarshal that reads an object into v.
func NewObject[T any](v *T) *Object[T] { return &Object[T]{v} }

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (o *Object[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		if err := dec.SkipValue(); err != nil {
			return err
		}
		return errors.New("it must be a JSON object")
	}
	return json.UnmarshalDecode(dec, o.into)
}

// Malformed words an error of package json for a sender: it leaves out Go types.
func Malformed(err error) error {
	var typed *json.SemanticError
	for errors.As(err, &typed) && typed.Err != nil {
		err = typed.Err
	}
	return fmt.Errorf("malformed JSON: %w", err)
}
