package truncate

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Encode returns each object of a list as JSON, without escaping <, > and &.
func Encode[T any](list []T) ([]json.RawMessage, error) {
	objects := make([]json.RawMessage, len(list))
	for i := range list {
		var err error
		if objects[i], err = encode(list[i]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Join returns objects as a JSON list.
func Join(objects []json.RawMessage) json.RawMessage {
	out := append(make([]byte, 0, listSize(objects)), '[')
	for i, o := range objects {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, o...)
	}
	return append(out, ']')
}
