package foreign

import "fmt"

// CheckJSON says whether a JSON text is nested deeper than MaxDepth or holds
// more than parts objects and lists. It is for decoders whose library would
// take it all into memory first: a list of empty objects takes a few bytes each
// as text, and hundreds as structs. It doesn't say whether the text is JSON.
// Its errors wrap ErrTooMany.
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
