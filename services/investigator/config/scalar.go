package config

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
