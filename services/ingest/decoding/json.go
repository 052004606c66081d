package decoding

import (
	"encoding/json"
	"errors"
	"fmt"
)

// CheckJSON returns an error that wraps [ErrTooMany] if a JSON text is nested deeper than
// [MaxDepth] or holds more than parts objects and lists. Decoders call it whose library
// reads everything into memory at once: an empty object takes a few bytes as text, and
// hundreds as a struct. It does not check that the text is JSON.
func CheckJSON(data []byte, parts int) error {
	depth, seen, quoted := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
			seen++
			if depth > MaxDepth {
				return fmt.Errorf("the JSON is nested deeper than %d: %w", MaxDepth, ErrTooMany)
			}
			if seen > parts {
				return fmt.Errorf("the JSON holds more than %d objects and lists: %w", parts, ErrTooMany)
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return nil
}

// JSONError words an error of encoding/json for a sender: it names the field, not the
// structs of a library.
func JSONError(err error) error {
	var typed *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &typed) && typed.Field == "":
		return errors.New("must be a JSON object")
	case errors.As(err, &typed):
		return fmt.Errorf("%s must not be a JSON %s", typed.Field, typed.Value)
	case errors.As(err, &syntax):
		return fmt.Errorf("malformed JSON: %w", err)
	default: // a malformed time
		return err
	}
}
