// Package toolschema makes one Go struct the source of a tool's arguments: of its JSON
// schema, of the validation with its refusals, and of its documentation.
//
// A field is an argument. Its type may be a string, an int, or a list of strings, and its
// tags say the rest:
//
//	json        the argument's name
//	jsonschema  its description
//	enum        the name of the table of allowed values, see [Enums]
//	default     its value where it is missing
//	min, max    bounds of an int; max of a string is its length in bytes, of a list the
//	            number of elements
//	elements    what the elements of a list are, for refusals
//	required    "true": the schema requires it. An empty value is refused if the argument
//	            has an enum; the tool itself refuses an empty text
//	lenient     "true": any string is accepted, and enum only documents
//	bounds      "shown": the schema has the maxLength of a string and the minItems of a list
//	object      "true": an object is accepted in place of a string, as its JSON. The schema has
//	            the string alone, because some clients support one type of an argument only
//
// A bool with the tags json:"-" and given is no argument: it reports whether the argument with the
// name in given was sent.
//
// It knows nothing of MCP and of particular tools.
package toolschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Enums are tables of allowed values, by the names that the enum tags use.
type Enums map[string][]string

// maxShown is how much of an unknown argument's name a refusal repeats, in characters.
const maxShown = 64

// Schema describes the arguments of one tool, read into a T.
type Schema[T any] struct {
	fields []field
	// given are the indexes of the bools that report whether an argument was sent, by its name.
	given map[string][]int
	json  json.RawMessage
}

// field is one argument.
type field struct {
	name, description string
	index             []int
	kind              reflect.Kind
	// allowed values; nil where any is.
	allowed []string
	// fallback is the default; hasDefault reports whether the schema names it.
	fallback          string
	hasDefault        bool
	min, max          int
	elements          string
	required, lenient bool
	// boundsShown reports whether the schema has the bounds of strings and lists too.
	boundsShown bool
	// object reports whether an object is accepted in place of a string.
	object bool
}

// New returns the schema of T. It fails when a tag is malformed.
func New[T any](enums Enums) (*Schema[T], error) {
	t := reflect.TypeFor[T]()
	s := &Schema[T]{given: map[string][]int{}}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue
		}
		if name := f.Tag.Get("given"); name != "" {
			if f.Type.Kind() != reflect.Bool || f.Tag.Get("json") != "-" {
				return nil, fmt.Errorf("field %s of %s: a field with the tag given must be a bool with json:\"-\"", f.Name, t)
			}
			s.given[name] = f.Index
			continue
		}
		one, err := fieldOf(f, enums)
		if err != nil {
			return nil, fmt.Errorf("argument %s of %s: %w", f.Name, t, err)
		}
		s.fields = append(s.fields, one)
	}
	for name := range s.given {
		if !slices.ContainsFunc(s.fields, func(f field) bool { return f.name == name }) {
			return nil, fmt.Errorf("%s has no argument %s, which the tag given names", t, name)
		}
	}
	inferred, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, err
	}
	inferred.Required = nil
	if inferred.Properties == nil {
		inferred.Properties = map[string]*jsonschema.Schema{}
	}
	for _, f := range s.fields {
		f.complete(inferred.Properties[f.name])
		if f.required {
			inferred.Required = append(inferred.Required, f.name)
		}
	}
	s.json, err = json.Marshal(inferred)
	if err == nil && len(s.fields) == 0 { // it is left out where it is empty, and some clients need it
		s.json = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
	}
	return s, err
}

func fieldOf(f reflect.StructField, enums Enums) (field, error) {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	one := field{
		name: name, description: f.Tag.Get("jsonschema"), index: f.Index, kind: f.Type.Kind(), elements: f.Tag.Get("elements"),
		required: f.Tag.Get("required") == "true", lenient: f.Tag.Get("lenient") == "true",
		boundsShown: f.Tag.Get("bounds") == "shown", object: f.Tag.Get("object") == "true",
	}
	if name == "" {
		return one, fmt.Errorf("has no name")
	}
	if table, ok := f.Tag.Lookup("enum"); ok {
		if one.allowed = enums[table]; one.allowed == nil {
			return one, fmt.Errorf("there is no table of values %q", table)
		}
	}
	one.fallback, one.hasDefault = f.Tag.Lookup("default")
	for tag, bound := range map[string]*int{"min": &one.min, "max": &one.max} {
		if text, ok := f.Tag.Lookup(tag); ok {
			var err error
			if *bound, err = strconv.Atoi(text); err != nil {
				return one, fmt.Errorf("%s: %w", tag, err)
			}
		}
	}
	switch {
	case one.kind == reflect.String, one.kind == reflect.Int, one.kind == reflect.Slice && f.Type.Elem().Kind() == reflect.String:
		return one, nil
	default:
		return one, fmt.Errorf("%s is not supported", f.Type)
	}
}

// complete adds what the type does not say to the inferred schema of an argument.
func (f field) complete(s *jsonschema.Schema) {
	values := make([]any, len(f.allowed))
	for i, v := range f.allowed {
		values[i] = v
	}
	switch f.kind {
	case reflect.Int:
		low, high := float64(f.min), float64(f.max)
		s.Minimum, s.Maximum = &low, &high
	case reflect.Slice:
		s.Types, s.Type = nil, "array"
		if len(values) > 0 {
			s.Items.Enum = values
		}
		if f.boundsShown {
			least := 1
			s.MinItems = &least
		}
	default:
		if f.boundsShown {
			most := f.max
			s.MaxLength = &most
		}
		if len(values) > 0 {
			s.Enum = values
		}
	}
	if !f.hasDefault {
		return
	}
	switch f.kind {
	case reflect.Int:
		s.Default = json.RawMessage(f.fallback)
	case reflect.Slice:
		s.Default = json.RawMessage(`["` + f.fallback + `"]`)
	default:
		s.Default = json.RawMessage(strconv.Quote(f.fallback))
	}
}

// JSON returns the JSON schema.
func (s *Schema[T]) JSON() json.RawMessage { return s.json }

// Decode reads and validates arguments. A missing one has its default, and so has an
// empty string: models fill in what they don't mean. A null is refused like any other
// wrong type: taken as missing it would replace a setting by its default. The error
// names the first wrong argument and what is allowed.
func (s *Schema[T]) Decode(data json.RawMessage) (T, error) {
	var args T
	var raw map[string]json.RawMessage
	if len(data) > 0 && string(data) != "null" && json.Unmarshal(data, &raw) != nil {
		return args, fmt.Errorf("the arguments must be a JSON object")
	}
	v := reflect.ValueOf(&args).Elem()
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
		if must := f.set(v.FieldByIndex(f.index), raw[f.name]); must != "" {
			return args, fmt.Errorf("%s must be %s", f.name, must)
		}
		if index, ok := s.given[f.name]; ok {
			v.FieldByIndex(index).SetBool(raw[f.name] != nil)
		}
	}
	var unknown []string
	for name := range raw {
		if !slices.Contains(names, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		name := sanitize.Cut(sanitize.Visible(slices.Min(unknown)), maxShown)
		if len(names) == 0 {
			return args, fmt.Errorf("unknown argument %s; there are no arguments", name)
		}
		return args, fmt.Errorf("unknown argument %s; the arguments are %s", name, strings.Join(names, ", "))
	}
	return args, nil
}

// set decodes the value of an argument, or its default where value is nil. It returns
// what the argument must be where the value is wrong.
func (f field) set(v reflect.Value, value json.RawMessage) (must string) {
	switch f.kind {
	case reflect.Int:
		return f.setInt(v, value)
	case reflect.Slice:
		return f.setList(v, value)
	default:
		return f.setString(v, value)
	}
}

func (f field) setString(v reflect.Value, value json.RawMessage) (must string) {
	must = fmt.Sprintf("a text of at most %d bytes", f.max)
	if f.allowed != nil {
		must = "one of " + strings.Join(f.allowed, ", ")
	}
	if value == nil || string(value) == `""` {
		v.SetString(f.fallback)
		if f.required && f.allowed != nil {
			return must
		}
		return ""
	}
	var text string
	switch {
	case f.object && value[0] == '{':
		var compact bytes.Buffer
		if json.Compact(&compact, value) != nil {
			return must
		}
		text = compact.String()
	case !decode(value, &text):
		return must
	}
	switch {
	case f.lenient:
	case f.allowed != nil && !slices.Contains(f.allowed, text), f.allowed == nil && len(text) > f.max:
		return must
	}
	v.SetString(text)
	return ""
}

func (f field) setList(v reflect.Value, value json.RawMessage) (must string) {
	list := []string{}
	switch {
	case value == nil && f.fallback != "":
		list = []string{f.fallback}
	case value == nil:
		return ""
	case f.allowed == nil:
		if !decode(value, &list) || len(list) > f.max {
			return fmt.Sprintf("a list of at most %d %s", f.max, f.elements)
		}
	default:
		if !decode(value, &list) || len(list) == 0 || len(list) > len(f.allowed) || slices.ContainsFunc(list, func(s string) bool { return !slices.Contains(f.allowed, s) }) {
			return "a list with at least one of " + strings.Join(f.allowed, ", ")
		}
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i, text := range list {
		v.Index(i).SetString(text)
	}
	return ""
}

func (f field) setInt(v reflect.Value, value json.RawMessage) (must string) {
	if value == nil {
		n, err := strconv.Atoi(f.fallback)
		if err != nil {
			return fmt.Sprintf("between %d and %d", f.min, f.max)
		}
		v.SetInt(int64(n))
		return ""
	}
	var n float64
	switch {
	case !decode(value, &n) || n < float64(f.min) || n > float64(f.max):
		return fmt.Sprintf("between %d and %d", f.min, f.max)
	case n != math.Trunc(n):
		return fmt.Sprintf("between %d and %d, in whole numbers", f.min, f.max)
	}
	v.SetInt(int64(n))
	return ""
}

// decode decodes a value, and reports whether it has the type that v points to. A null
// has none.
func decode(value json.RawMessage, v any) bool {
	return string(value) != "null" && json.Unmarshal(value, v) == nil
}

// Markdown returns the arguments as a table for the reference.
func (s *Schema[T]) Markdown() string {
	if len(s.fields) == 0 {
		return "It has no arguments.\n"
	}
	var b strings.Builder
	b.WriteString("| argument | type | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, f := range s.fields {
		fallback := ""
		switch {
		case f.required:
			fallback = "required"
		case f.fallback != "":
			fallback = "`" + f.fallback + "`"
		}
		_, _ = fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.markdownType(), fallback, f.description)
	}
	return b.String()
}

func (f field) markdownType() string {
	var values string
	if f.allowed != nil {
		values = "`" + strings.Join(f.allowed, "`, `") + "`"
	}
	switch {
	case f.kind == reflect.Int:
		return fmt.Sprintf("whole number from %d to %d", f.min, f.max)
	case f.kind == reflect.Slice && values != "":
		return "list of " + values
	case f.kind == reflect.Slice:
		return fmt.Sprintf("list of at most %d %s", f.max, f.elements)
	case values != "":
		return values
	default:
		return fmt.Sprintf("text of at most %d bytes", f.max)
	}
}
