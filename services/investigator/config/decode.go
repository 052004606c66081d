package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Bounds of a file. Aliases count each time they are used.
const (
	maxNodes = 50_000
	maxDepth = 24
)

// decoder reads the nodes of one file into structs, by their tags:
//
//	key       the name in the file
//	default   the value of a key that is not there
//	range     the lowest and the highest value
//	enum      the values of a text
//	max       the length of a list
//	required  the key must be there
//	scalar    a list may be written as its only element
//	secret    the value is not shown
//	later     "true": only the zero value; else further values of enum: a later version reads them
type decoder struct {
	name     string
	lookup   func(string) (string, bool)
	errors   []Problem
	warnings []Problem
	lines    map[string]int
	raw      map[string]string
	expanded map[string][]expansion
	nodes    int
	full     bool
	// unreadable is set where a file is no YAML.
	unreadable bool
	// providersFile is the file of llm_providers, where it is another one.
	providersFile string
}

func (d *decoder) fail(line int, path, format string, args ...any) {
	d.errors = append(d.errors, Problem{d.fileOf(path), line, path, fmt.Sprintf(format, args...)})
}

func (d *decoder) warn(line int, path, text string) {
	d.warnings = append(d.warnings, Problem{d.fileOf(path), line, path, text})
}

func (d *decoder) fileOf(path string) string {
	if d.providersFile != "" && strings.HasPrefix(path, "llm_providers") {
		return d.providersFile
	}
	return d.name
}

// fields returns the fields of a struct that stand in the file.
func fields(t reflect.Type) []reflect.StructField {
	var fs []reflect.StructField
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("key") != "" {
			fs = append(fs, f)
		}
	}
	return fs
}

// setDefaults sets the defaults of a struct's tags.
func setDefaults(v reflect.Value) {
	for _, f := range fields(v.Type()) {
		field := v.FieldByIndex(f.Index)
		if field.Kind() == reflect.Struct {
			setDefaults(field)
		} else if text, ok := f.Tag.Lookup("default"); ok {
			if err := setScalar(field, text); err != nil {
				panic(fmt.Sprintf("default of %s: %v", f.Name, err)) // a test reads all tags
			}
		}
	}
}

// document reads the document of a file into c.
func (d *decoder) document(data []byte, c *Config) {
	v := reflect.ValueOf(c).Elem()
	setDefaults(v)
	var doc, second yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	err := dec.Decode(&doc)
	if err == nil {
		if again := dec.Decode(&second); again == nil {
			d.fail(second.Line, "", "a second document: want one")
		} else {
			var syntax *yaml.TypeError
			if !errors.As(again, &syntax) && again.Error() != "EOF" {
				err = again
			}
		}
	}
	switch {
	case err != nil && err.Error() == "EOF": // an empty file
	case err != nil:
		d.syntax(err)
	default:
		d.node(doc.Content[0], "", v, "", 0)
	}
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func (d *decoder) syntax(err error) {
	d.unreadable = true
	text, line := err.Error(), 0
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	d.fail(line, "", "not YAML: %s", oneLine(strings.TrimPrefix(text, "yaml: "), 300))
}

// node reads n into v. tag has what the field's tags say.
func (d *decoder) node(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag, depth int) {
	if d.nodes++; d.nodes > maxNodes || depth > maxDepth {
		if !d.full {
			d.full = true
			d.fail(n.Line, path, "too much: a file has at most %d values, %d deep, each use of an alias counted", maxNodes, maxDepth)
		}
		return
	}
	if n.Kind == yaml.AliasNode {
		d.node(n.Alias, path, v, tag, depth+1)
		return
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[later]() { // its required keys are missing
			d.structure(&yaml.Node{Kind: yaml.MappingNode, Line: n.Line}, path, v, depth)
			return
		}
		if v.Kind() == reflect.Struct || v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map || tag == "" {
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setDefaults(v.Elem())
		d.node(n, path, v.Elem(), tag, depth+1)
	case reflect.Struct:
		d.structure(n, path, v, depth)
	case reflect.Map:
		d.mapping(n, path, v, tag, depth)
	case reflect.Slice:
		d.list(n, path, v, tag, depth)
	default:
		d.scalar(n, path, v, tag)
	}
}

// keys calls f for each key of a mapping, without those that come twice.
func (d *decoder) keys(n *yaml.Node, path string, f func(key *yaml.Node, path string, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.fail(n.Line, path, "is %s: want keys and values", kindOf(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode:
			d.fail(key.Line, path, `has a key that is no text: put "{{.NAME}}" in quotes`)
			continue
		case key.Tag == "!!merge":
			d.fail(key.Line, path, "<< is not supported: repeat the keys")
			continue
		}
		at := join(path, key.Value)
		if first, twice := seen[key.Value]; twice {
			d.fail(key.Line, at, "is there twice: first in line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		d.lines[at] = key.Line
		f(key, at, n.Content[i+1])
	}
}

func (d *decoder) structure(n *yaml.Node, path string, v reflect.Value, depth int) {
	if v.Type() == reflect.TypeFor[later]() {
		d.fail(n.Line, path, "is not supported yet: leave it out")
		return
	}
	known := fields(v.Type())
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.Tag.Get("key")
	}
	given := map[string]bool{}
	before := len(d.errors)
	d.keys(n, path, func(key *yaml.Node, at string, value *yaml.Node) {
		i := slices.Index(names, key.Value)
		if i < 0 {
			d.unknown(key, at, names)
			return
		}
		given[key.Value] = true
		f := known[i]
		field := v.FieldByIndex(f.Index)
		d.node(value, at, field, f.Tag, depth+1)
		if f.Tag.Get("later") == "true" && !isEmpty(field) {
			d.fail(key.Line, at, "is not supported yet: leave it out")
		}
	})
	if n.Kind != yaml.MappingNode && len(d.errors) > before {
		return
	}
	for i, f := range known {
		if f.Tag.Get("required") == "true" && !given[names[i]] {
			d.fail(n.Line, join(path, names[i]), "is missing: want %s", f.Tag.Get("doc"))
		}
	}
}

func isEmpty(v reflect.Value) bool {
	if v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
		return v.Len() == 0
	}
	return v.IsZero()
}

func (d *decoder) unknown(key *yaml.Node, path string, names []string) {
	if text := foreignWord(key.Value); text != "" && standsThere(key.Value, path) {
		d.warn(key.Line, path, "has no effect: "+text)
		return
	}
	d.fail(key.Line, path, "is not known: %s", suggest(oneLine(key.Value, 100), names))
}

// mapping reads names with their entries.
func (d *decoder) mapping(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag, depth int) {
	v.Set(reflect.MakeMap(v.Type()))
	d.keys(n, path, func(key *yaml.Node, at string, value *yaml.Node) {
		if v.Type().Elem().Kind() == reflect.Pointer {
			if text := wrongName(key.Value, tag.Get("names") == "server"); text != "" {
				d.fail(key.Line, at, "%s", text)
				return
			}
		}
		entry := reflect.New(v.Type().Elem()).Elem()
		if value.Kind == yaml.ScalarNode && value.Tag == "!!null" && entry.Kind() == reflect.Pointer {
			entry.Set(reflect.New(entry.Type().Elem()))
			setDefaults(entry.Elem())
			d.structure(&yaml.Node{Kind: yaml.MappingNode, Line: key.Line}, at, entry.Elem(), depth)
		} else {
			d.node(value, at, entry, tag, depth+1)
		}
		if entry.Kind() != reflect.Pointer || !entry.IsNil() {
			v.SetMapIndex(reflect.ValueOf(key.Value), entry)
		}
	})
}

var (
	nameShape   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	serverShape = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$`)
)

// Bounds of names. A model sees server__tool in at most 64 characters.
const (
	maxName       = 100
	maxServerName = 32
)

func wrongName(name string, server bool) string {
	switch {
	case server && name == BuiltinServer:
		return "is built in: choose another name"
	case server && (!serverShape.MatchString(name) || len(name) > maxServerName || strings.Contains(name, "__")):
		return fmt.Sprintf("is no name of a server: want small letters, digits, - and single _ between them, at most %d characters", maxServerName)
	case !server && (!nameShape.MatchString(name) || len(name) > maxName):
		return fmt.Sprintf("is no name: want letters, digits, dots, - and _, at most %d characters", maxName)
	}
	return ""
}

func (d *decoder) list(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag, depth int) {
	elements := []*yaml.Node{n}
	switch {
	case n.Kind == yaml.SequenceNode:
		elements = n.Content
	case n.Kind != yaml.ScalarNode || tag.Get("scalar") == "":
		d.fail(n.Line, path, "is %s: want a list", kindOf(n))
		return
	}
	if most, err := strconv.Atoi(tag.Get("max")); err == nil && len(elements) > most {
		d.fail(n.Line, path, "has %d elements: want at most %d", len(elements), most)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(elements), len(elements)))
	for i, element := range elements {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.lines[at] = element.Line
		entry := v.Index(i)
		if entry.Kind() == reflect.Struct {
			setDefaults(entry)
		}
		if strings.HasSuffix(path, "fallback_providers") && element.Kind == yaml.MappingNode {
			element = d.foreignFallback(element, at)
		}
		before := len(d.errors)
		d.node(element, at, entry, tag, depth+1)
		if entry.Kind() == reflect.String && entry.Len() == 0 && len(d.errors) == before && !strings.HasSuffix(path, ".args") {
			d.fail(element.Line, at, "is empty: leave it out")
		}
	}
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

func join(path, key string) string {
	key = oneLine(key, 100)
	if path == "" {
		return key
	}
	return path + "." + key
}

// oneLine returns text for a message: visible, in one line, at most limit characters.
func oneLine(text string, limit int) string {
	return sanitize.Cut(sanitize.Visible(text), limit)
}

func quoted(text string) string {
	if text == "" {
		return "the value"
	}
	return strconv.Quote(oneLine(text, 100))
}

// sortedKeys returns the keys of m in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
