// Package arguments reads the arguments of a tool call as a model wrote them. Models are asked
// for a JSON object, and some of them write something else.
//
// It is pure, and knows neither tools nor their schemas.
package arguments

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	// MaxBytes bounds the text. A longer one is an error.
	MaxBytes = 256 << 10
	// MaxDepth bounds the nesting of objects and lists. A deeper one is an error.
	MaxDepth = 64
	// inputKey is the key of what is not an object.
	inputKey = "input"
)

// The errors of [Parse]. The model can read them.
var (
	ErrTooLong = fmt.Errorf("the arguments are longer than %d bytes", MaxBytes)
	ErrTooDeep = fmt.Errorf("the arguments are nested over %d levels", MaxDepth)
	ErrBroken  = errors.New("the arguments are no valid JSON object")
)

// Parse returns the arguments as a JSON object with sorted keys. Of a key that stands twice the
// last value counts. The first form that fits is taken:
//
//   - nothing: an empty object
//   - a JSON object
//   - other JSON: {"input": ...}
//   - YAML: a mapping in braces, or one with a list or a mapping among its values
//   - lines or comma-separated pairs `key: value` or `key=value`, with true, false, null, none,
//     integers and decimals as such
//   - other text: {"input": text}
//
// Text that begins with a brace and is neither JSON nor YAML is [ErrBroken]: it was cut or
// misspelled, and the tool must not be called with a part of it.
func Parse(text string) (json.RawMessage, error) {
	if len(text) > MaxBytes {
		return nil, ErrTooLong
	}
	text = strings.TrimSpace(strings.ToValidUTF8(text, string(utf8.RuneError)))
	if text == "" {
		return json.RawMessage("{}"), nil
	}
	value, err := parseJSON(text)
	switch {
	case errors.Is(err, ErrTooDeep):
		return nil, err
	case err == nil:
		if object, ok := value.(map[string]any); ok {
			return encode(object)
		}
		return encode(map[string]any{inputKey: value})
	}
	inBraces := strings.HasPrefix(text, "{")
	switch object, yamlErr := parseYAML(text, inBraces); {
	case errors.Is(yamlErr, ErrTooDeep):
		return nil, yamlErr
	case yamlErr == nil:
		return encode(object)
	case inBraces:
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if object, ok := parsePairs(text); ok {
		return encode(object)
	}
	return encode(map[string]any{inputKey: text})
}

func encode(object map[string]any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(object); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return json.RawMessage(bytes.TrimSpace(b.Bytes())), nil
}

// parseJSON reads exactly one JSON value. Numbers keep their digits.
func parseJSON(text string) (any, error) {
	if err := checkDepth(text); err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the JSON value")
	}
	return value, nil
}

// checkDepth looks at the brackets outside of strings, before anything recursive does. Prose
// with that many open brackets is refused as well.
func checkDepth(text string) error {
	depth, quoted, escaped := 0, false, false
	for i := range len(text) {
		switch c := text[i]; {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return ErrTooDeep
			}
		case (c == '}' || c == ']') && depth > 0:
			depth--
		}
	}
	return nil
}

var errNoYAML = errors.New("no YAML with structure")

// parseYAML reads one YAML mapping. Without braces it needs a list or a mapping among its
// values: all else is left to parsePairs.
func parseYAML(text string, inBraces bool) (map[string]any, error) {
	d := yaml.NewDecoder(strings.NewReader(text))
	var document yaml.Node
	if err := d.Decode(&document); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoYAML, err)
	}
	var second yaml.Node
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errNoYAML
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errNoYAML
	}
	value, err := fromYAML(document.Content[0], 1)
	if err != nil {
		return nil, err
	}
	object := value.(map[string]any)
	for _, v := range object {
		switch v.(type) {
		case map[string]any, []any:
			return object, nil
		}
	}
	if inBraces {
		return object, nil
	}
	return nil, errNoYAML
}

func fromYAML(n *yaml.Node, depth int) (any, error) {
	if depth > MaxDepth {
		return nil, ErrTooDeep
	}
	switch n.Kind {
	case yaml.MappingNode:
		object := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode {
				return nil, errNoYAML
			}
			value, err := fromYAML(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			object[key.Value] = value
		}
		return object, nil
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			value, err := fromYAML(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case yaml.ScalarNode:
		return scalarYAML(n), nil
	default: // an alias can make a small text huge
		return nil, errNoYAML
	}
}

func scalarYAML(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return json.Number(strconv.FormatInt(i, 10))
		}
	case "!!float":
		var f float64
		if n.Decode(&f) == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f
		}
	}
	return n.Value
}

// A colon is followed by a space or ends the text, so that a URL or a time is no pair.
var pair = regexp.MustCompile(`(?s)^\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*(?:=|:(?:\s+|$))\s*(.*?)\s*$`)

// parsePairs reads pairs, one a line, or several with commas between. It reports false where a
// line is none.
func parsePairs(text string) (map[string]any, bool) {
	object := map[string]any{}
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		parts := splitCommas(line)
		for _, part := range parts {
			if !pair.MatchString(part) { // the comma belongs to a value
				parts = []string{line}
				break
			}
		}
		for _, part := range parts {
			m := pair.FindStringSubmatch(part)
			if m == nil {
				return nil, false
			}
			object[m[1]] = typed(m[2])
		}
	}
	return object, len(object) > 0
}

// splitCommas splits at commas outside of quotes. An empty part at the end is left out.
func splitCommas(line string) []string {
	var parts []string
	var quote byte
	start := 0
	for i := range len(line) {
		switch c := line[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == ',':
			parts = append(parts, line[start:i])
			start = i + 1
		}
	}
	if rest := line[start:]; strings.TrimSpace(rest) != "" || len(parts) == 0 {
		parts = append(parts, rest)
	}
	return parts
}

var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)\.[0-9]+([eE][+-]?[0-9]+)?$`)

// typed returns the value that a text without quotes stands for. A number with leading zeros, or
// one over 64 bits, stays text: it is an identifier.
func typed(s string) any {
	switch strings.ToLower(s) {
	case "true":
		return true
	case "false":
		return false
	case "null", "none":
		return nil
	}
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(i, 10) == s {
		return json.Number(s)
	}
	if decimal.MatchString(s) {
		if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsInf(f, 0) {
			return json.Number(s)
		}
	}
	return s
}
