package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Table returns the keys as Markdown: where each stands, its type, default, range and
// meaning. It is the source of docs/reference/investigator.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| key | type | default | range | meaning |\n| --- | --- | --- | --- | --- |\n")
	rows(&b, reflect.TypeFor[Config](), "")
	return b.String()
}

func rows(b *strings.Builder, t reflect.Type, path string) {
	for _, f := range fields(t) {
		at := strings.TrimPrefix(path+"."+f.Tag.Get("key"), ".")
		kind, element := typeName(f.Type)
		limits := f.Tag.Get("range")
		if enum := f.Tag.Get("enum"); enum != "" {
			limits = "`" + strings.ReplaceAll(enum, "|", "`, `") + "`"
		}
		if most := f.Tag.Get("max"); most != "" {
			limits = "at most " + most
		}
		doc := f.Tag.Get("doc")
		if f.Tag.Get("required") == "true" {
			doc += "; required"
		}
		switch l := f.Tag.Get("later"); l {
		case "":
		case "true":
			doc += "; not supported yet"
		default:
			doc += "; not supported yet: `" + strings.ReplaceAll(l, "|", "`, `") + "`"
		}
		value := f.Tag.Get("default")
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", at, kind, value, strings.ReplaceAll(limits, "..", " to "), doc)
		switch {
		case element == nil:
		case strings.HasPrefix(kind, "map"):
			rows(b, element, at+".<name>")
		case strings.HasPrefix(kind, "list"):
			rows(b, element, at+"[]")
		default:
			rows(b, element, at)
		}
	}
}

// typeName returns the name of a type in the table, and the struct below it.
func typeName(t reflect.Type) (string, reflect.Type) {
	switch t {
	case reflect.TypeFor[Duration]():
		return "duration", nil
	case reflect.TypeFor[Size]():
		return "size", nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Struct:
		return "section", t
	case reflect.Map:
		_, element := typeName(t.Elem())
		return "map", element
	case reflect.Slice:
		kind, element := typeName(t.Elem())
		if element == nil {
			kind += "s"
		} else {
			kind = "sections"
		}
		return "list of " + kind, element
	case reflect.Bool:
		return "true or false", nil
	case reflect.Int, reflect.Float64:
		return "number", nil
	default:
		return "text", nil
	}
}
