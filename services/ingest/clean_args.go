package ingest

import (
	"maps"
	"slices"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// ellipsis replaces values that were cut.
const ellipsis = "…"

// stripArgs removes hidden characters from every text in the arguments of a log line,
// names of fields included.
func stripArgs(args []any) []any {
	for i := range args {
		args[i] = stripValue(args[i])
	}
	return args
}

// stripValue recurses as deep as the decoder lets JSON nest.
func stripValue(v any) any {
	switch v := v.(type) {
	case string:
		return sanitize.Strip(v)
	case []any:
		for i := range v {
			v[i] = stripValue(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v { // of two names that become the same, one stays
			out[sanitize.Strip(name)] = stripValue(value)
		}
		return out
	}
	return v
}

// argsBudget is the rest of the bytes of text, and of the values, that the arguments of one log
// line may have.
type argsBudget struct{ text, values int }

func cutArgs(args []any) []any {
	a := argsBudget{text: maxArgs, values: maxValues}
	return a.array(args, 1)
}

func (a *argsBudget) value(v any, depth int) any {
	a.values--
	switch v := v.(type) {
	case string:
		return a.cut(v)
	case []any:
		if depth == maxDepth {
			return ellipsis
		}
		return a.array(v, depth+1)
	case map[string]any:
		if depth == maxDepth {
			return ellipsis
		}
		out := make(map[string]any, min(len(v), max(a.values, 0)))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if a.values <= 0 {
				break
			}
			out[a.cut(name)] = a.value(v[name], depth+1)
		}
		return out
	}
	return v
}

func (a *argsBudget) array(values []any, depth int) []any {
	for i := range values {
		if a.values <= 0 {
			return append(values[:i], ellipsis)
		}
		values[i] = a.value(values[i], depth)
	}
	return values
}

// cut cuts a text to the budget, and subtracts its bytes. The cut is in characters, which are
// never more than the bytes.
func (a *argsBudget) cut(text string) string {
	text = sanitize.Cut(text, max(a.text, 1))
	a.text -= len(text)
	return text
}

// stripHeaders removes hidden characters from names and values.
func stripHeaders(headers map[string]string) map[string]string {
	if len(headers) == 0 {
		return nil
	}
	out := make(map[string]string, len(headers))
	for name, value := range headers {
		out[sanitize.Strip(name)] = sanitize.Strip(value)
	}
	return out
}

// cutHeaders bounds headers in number and size. The last ones, by name, are dropped.
func cutHeaders(headers map[string]string) map[string]string {
	total, fits := 0, len(headers) <= maxHeaders
	for name, value := range headers {
		total += len(name) + len(value)
		fits = fits && len(name) <= maxName && len(value) <= maxHeader
	}
	if fits && total <= maxHeaderBytes {
		return headers
	}
	out := make(map[string]string, min(len(headers), maxHeaders))
	room := maxHeaderBytes
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := sanitize.Cut(headers[name], maxHeader)
		name = sanitize.Cut(name, maxName)
		if room -= len(name) + len(value); room < 0 || len(out) == maxHeaders {
			break
		}
		out[name] = value
	}
	return out
}
