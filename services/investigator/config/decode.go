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
	expanded map[string][]string
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

// scalar reads one value, after it has put the environment into it.
func (d *decoder) scalar(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag) {
	if n.Kind != yaml.ScalarNode {
		hint := ""
		if n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 {
			hint = ` (put "{{.NAME}}" in quotes)`
		}
		d.fail(n.Line, path, "is %s: want %s%s", kindOf(n), wanted(v), hint)
		return
	}
	text, ok := d.expand(n, path)
	if !ok {
		return
	}
	shown := n.Value
	if tag.Get("secret") != "" {
		shown = ""
	}
	if v.Kind() == reflect.String && n.Tag != "!!str" && tag.Get("secret") == "" && n.Tag != "!!int" && n.Tag != "!!float" {
		d.fail(n.Line, path, "is %s: put a text in quotes", quoted(shown))
		return
	}
	if err := setScalar(v, text); err != nil {
		d.fail(n.Line, path, "%s %v", quoted(shown), err)
		return
	}
	if enum := tag.Get("enum"); enum != "" && v.Kind() == reflect.String {
		values := strings.Split(enum, "|")
		switch {
		case slices.Contains(values, text):
		case slices.Contains(strings.Split(tag.Get("later"), "|"), text):
			d.fail(n.Line, path, "%s is not supported yet: want %s", quoted(shown), strings.Join(values, " or "))
		default:
			d.fail(n.Line, path, "%s is not known: %s", quoted(shown), suggest(text, values))
		}
	}
	if limits := tag.Get("range"); limits != "" && outside(v, limits) {
		low, high, _ := strings.Cut(limits, "..")
		d.fail(n.Line, path, "is %s: want %s to %s", shown, low, high)
	}
}

func outside(v reflect.Value, limits string) bool {
	low, high, _ := strings.Cut(limits, "..")
	lo, hi := reflect.New(v.Type()).Elem(), reflect.New(v.Type()).Elem()
	if setScalar(lo, low) != nil || setScalar(hi, high) != nil {
		panic("range " + limits + " is no range of " + v.Type().String()) // a test reads all tags
	}
	if v.CanFloat() {
		f := v.Float()
		return !(f >= lo.Float() && f <= hi.Float()) // also what is no number
	}
	return v.Int() < lo.Int() || v.Int() > hi.Int()
}

// setScalar sets v to what text means. An error is the rest of a sentence that names the
// value.
func setScalar(v reflect.Value, text string) error {
	switch v.Interface().(type) {
	case Duration:
		x, err := parseDuration(text)
		if err == nil {
			v.SetInt(int64(x))
		}
		return err
	case Size:
		x, err := parseSize(text)
		if err == nil {
			v.SetInt(int64(x))
		}
		return err
	}
	switch v.Kind() {
	case reflect.Bool:
		if text != "true" && text != "false" {
			return errors.New("is not true or false")
		}
		v.SetBool(text == "true")
	case reflect.Int:
		x, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("is not a whole number")
		}
		v.SetInt(x)
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return errors.New("is not a number")
		}
		v.SetFloat(x)
	case reflect.Slice: // of a default
		v.Set(reflect.ValueOf(strings.Split(text, ",")))
	default:
		v.SetString(text)
	}
	return nil
}

func wanted(v reflect.Value) string {
	switch v.Interface().(type) {
	case Duration:
		return "a duration such as 30s"
	case Size:
		return "a size such as 1GiB"
	}
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Float64:
		return "a number"
	default:
		return "a text"
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

// suggest names the known word that is nearest to a wrong one, or all of them.
func suggest(word string, known []string) string {
	const near = 2
	best, at := near+1, ""
	for _, k := range known {
		if n := distance(word, k); n < best && n < len(k) {
			best, at = n, k
		}
	}
	if at != "" {
		return fmt.Sprintf("did you mean %s?", at)
	}
	if len(known) == 0 {
		return "there is none"
	}
	return "want one of " + strings.Join(known, ", ")
}

// distance returns the number of letters to add, remove or replace between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := diagonal
			if a[i] != b[j] {
				next++
			}
			diagonal = row[j+1]
			row[j+1] = min(next, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// sortedKeys returns the keys of m in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
