package redact

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// maxDepth is how deep JSON values are masked one by one. A deeper value is masked as a whole.
const maxDepth = 32

// any masks a JSON value and returns its replacement. Maps and slices are changed in place.
func (e *Engine) any(v any, depth int) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case string:
		if clean := e.String(v); clean != v {
			return clean
		}
		return v
	case float64:
		return e.number(v)
	case map[string]any:
		if depth >= maxDepth {
			return Mask
		}
		e.object(v, depth)
		return v
	case []any:
		if depth >= maxDepth {
			return Mask
		}
		e.list(v, depth)
		return v
	default:
		return e.foreign(v)
	}
}

// object masks the members of an object in place, and secrets in their names.
func (e *Engine) object(m map[string]any, depth int) {
	e.variables(m)
	named := e.namedBeside(m)
	for name, v := range m {
		clean := e.member(name, v, depth)
		if named != harmless && isValueLabel(name) {
			clean = e.valueBeside(named, v, depth)
		}
		if key := e.String(name); key != name {
			delete(m, name)
			name = key
		}
		m[name] = clean
	}
}

// namedBeside grades the name in an object that holds a name and a value:
// {"name": "x-api-key", "value": "abc"}.
func (e *Engine) namedBeside(m map[string]any) grade {
	if len(m) < 2 {
		return harmless
	}
	for label, v := range m {
		name, ok := v.(string)
		if !ok || !isNameLabel(label) {
			continue
		}
		if g := (cursor{engine: e}).gradeOtherField(name); g != harmless {
			return g
		}
	}
	return harmless
}

// valueBeside masks a value whose name is in another member. Numbers stay: metrics have this form as
// well.
func (e *Engine) valueBeside(g grade, v any, depth int) any {
	switch text := v.(type) {
	case nil, bool:
		return v
	case string:
		if text == "" || g == count && isCount(text) {
			return v
		}
		return Mask
	}
	if isNumber(v) {
		return e.any(v, depth+1)
	}
	return Mask
}

// variables masks the variables of a GraphQL query that are sensitive arguments, in place.
func (e *Engine) variables(m map[string]any) {
	query, ok := m["query"].(string)
	values, has := m["variables"].(map[string]any)
	if !ok || !has {
		return
	}
	bound := map[string]bool{}
	collectBound(&e.names, query, bound)
	for name := range bound {
		if v, ok := values[name]; ok && v != nil && v != "" {
			values[name] = Mask
		}
	}
}

func (e *Engine) member(name string, v any, depth int) any {
	if _, boolean := v.(bool); v == nil || v == "" || boolean {
		return v
	}
	switch g, _ := e.names.grade(name); {
	case g >= weak:
		return Mask
	case g == count && !isNumber(v):
		return Mask
	case g == counted:
		switch v := v.(type) {
		case string:
			return Mask
		case []any:
			if len(v) > 0 && reflect.TypeOf(v[0]) == reflect.TypeFor[string]() {
				return Mask
			}
		}
	}
	return e.any(v, depth+1)
}

func isNumber(v any) bool {
	_, number := v.(json.Number)
	kind := reflect.ValueOf(v).Kind()
	return number || kind >= reflect.Int && kind <= reflect.Float64
}

// number masks a card number that was sent as a number.
func (e *Engine) number(f float64) any {
	if f < 1e12 || f > 1e19 {
		return f
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if clean := e.String(s); clean != s {
		return clean
	}
	return f
}

// foreign masks a value of a type that no JSON decoder returns, by its JSON. A value without secrets
// stays; one that can't be encoded is masked.
func (e *Engine) foreign(v any) any {
	switch reflect.TypeOf(v).Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Float32:
		return v
	default:
	}
	data, err := json.Marshal(v)
	if err != nil {
		return Mask
	}
	if s := string(data); e.String(s) == s {
		return v
	}
	var open any
	if err := json.Unmarshal(data, &open); err != nil {
		return Mask
	}
	return e.any(open, 0)
}
