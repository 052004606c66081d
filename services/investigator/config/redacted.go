package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

// hidden stands for a secret that is written in the file.
const hidden = "[HIDDEN]"

// Redacted returns the configuration for people: with its defaults and what is built in, and
// without secrets. A value from the environment is shown as the file names it.
func (c *Config) Redacted() map[string]any {
	v := view{c, redact.New()}
	m, _ := v.of(reflect.ValueOf(c).Elem(), "", "").(map[string]any)
	return m
}

type view struct {
	c      *Config
	engine *redact.Engine
}

func (w view) of(v reflect.Value, path string, tag reflect.StructTag) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return w.of(v.Elem(), path, tag)
	case reflect.Struct:
		m := map[string]any{}
		for _, f := range fields(v.Type()) {
			if f.Tag.Get("later") == "true" {
				continue
			}
			key := f.Tag.Get("key")
			m[key] = w.of(v.FieldByIndex(f.Index), join(path, key), f.Tag)
		}
		return m
	case reflect.Map:
		m := map[string]any{}
		for _, key := range v.MapKeys() {
			m[key.String()] = w.of(v.MapIndex(key), join(path, key.String()), tag)
		}
		return m
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = w.of(v.Index(i), fmt.Sprintf("%s[%d]", path, i), tag)
		}
		return list
	default:
		return w.single(v, path, tag)
	}
}

// single returns a value that has no parts. A secret is shown as its environment variables, or
// hidden.
func (w view) single(v reflect.Value, path string, tag reflect.StructTag) any {
	raw, fromEnv := w.c.raw[path]
	switch x := v.Interface().(type) {
	case Duration:
		return x.String()
	case Size:
		return x.String()
	case string:
		switch {
		case tag.Get("secret") == "" && fromEnv:
			return w.engine.String(withoutQuery(raw, tag))
		case tag.Get("secret") == "":
			return w.engine.String(withoutQuery(x, tag))
		case fromEnv && envUse.FindString(raw) == raw:
			return raw
		case x == "":
			return ""
		}
		return hidden
	}
	return v.Interface()
}

// withoutQuery hides the query of an address: it may hold a secret of any name.
func withoutQuery(text string, tag reflect.StructTag) string {
	if before, _, found := strings.Cut(text, "?"); found && tag.Get("key") == "url" {
		return before + "?" + hidden
	}
	return text
}
