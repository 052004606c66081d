package arguments_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/investigator/toolbox/arguments"
)

func TestParse(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", "", `{}`},
		{"white space", " \n\t", `{}`},
		{"object", `{"b":1,"a":{"c":[true,null]}}`, `{"a":{"c":[true,null]},"b":1}`},
		{"large integer keeps its digits", `{"id":12345678901234567890}`, `{"id":12345678901234567890}`},
		{"the last of two keys", `{"a":1,"a":2}`, `{"a":2}`},
		{"markup is not escaped", `{"q":"<a&b>"}`, `{"q":"<a&b>"}`},
		{"list", `[1,"x"]`, `{"input":[1,"x"]}`},
		{"string", `"pods"`, `{"input":"pods"}`},
		{"number", `42`, `{"input":42}`},
		{"null", `null`, `{"input":null}`},
		{"YAML with a list", "ns: shop\nkinds:\n  - pod\n  - node\n", `{"kinds":["pod","node"],"ns":"shop"}`},
		{"YAML with a mapping", "filter:\n  app: shop\n  limit: 0x10\n", `{"filter":{"app":"shop","limit":16}}`},
		{"YAML in braces", `{ns: shop, all: true}`, `{"all":true,"ns":"shop"}`},
		{"YAML, the last of two keys", "a: [1]\na: [2]\n", `{"a":[2]}`},
		{"YAML without a number of JSON", "a: [.inf, 1.5, ~]", `{"a":[".inf",1.5,null]}`},
		{"pairs in lines", "namespace: shop\nlimit: 10\n", `{"limit":10,"namespace":"shop"}`},
		{"pairs with commas", `namespace=shop, all=true, since=None, ratio=0.5`, `{"all":true,"namespace":"shop","ratio":0.5,"since":null}`},
		{"a comma within a value", `query=a,b`, `{"query":"a,b"}`},
		{"a comma within quotes", `a="x, y=2", b=3`, `{"a":"x, y=2","b":3}`},
		{"quoted numbers stay text", `a="12", b='true'`, `{"a":"12","b":"true"}`},
		{"an identifier stays text", `id=007, big=99999999999999999999`, `{"big":"99999999999999999999","id":"007"}`},
		{"empty value", "a:\nb: 1", `{"a":"","b":1}`},
		{"URL", `https://shop.example/x`, `{"input":"https://shop.example/x"}`},
		{"prose", "look at the pods", `{"input":"look at the pods"}`},
		{"prose after a pair", "a: 1\nthen look", `{"input":"a: 1\nthen look"}`},
		{"alias", "a: &x [1]\nb: *x", `{"a":"&x [1]","b":"*x"}`},
		{"bracketed prose", "[error] in shop", `{"input":"[error] in shop"}`},
		{"no UTF-8", "a\xffb", `{"input":"a�b"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := arguments.Parse(test.text)
			if err != nil || string(got) != test.want {
				t.Errorf("Parse(%q) = %s, %v, want %s", test.text, got, err, test.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name, text string
		want       error
	}{
		{"cut", `{"path": "/var/lo`, arguments.ErrBroken},
		{"text after the object", `{"a":1} {"b":2}`, arguments.ErrBroken},
		{"too long", strings.Repeat("x", arguments.MaxBytes+1), arguments.ErrTooLong},
		{"deep JSON", strings.Repeat("[", 100_000), arguments.ErrTooDeep},
		{"deep object", strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), arguments.ErrTooDeep},
		{"deep YAML", deepYAML(70), arguments.ErrTooDeep},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := arguments.Parse(test.text)
			if !errors.Is(err, test.want) {
				t.Errorf("Parse = %.100s, %v, want %v", got, err, test.want)
			}
		})
	}
}

func deepYAML(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	b.WriteString(strings.Repeat(" ", levels) + "b: 1\n")
	return b.String()
}

// An object comes back with the same content.
func TestParseObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.MapOf(rapid.String(), rapid.OneOf(rapid.String().AsAny(), rapid.Bool().AsAny(), rapid.Int64().AsAny())).Draw(t, "object")
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := arguments.Parse(string(text))
		if err != nil {
			t.Fatalf("Parse(%s): %v", text, err)
		}
		again, err := arguments.Parse(string(got))
		if err != nil || string(again) != string(got) {
			t.Fatalf("Parse(%s) = %s, %v, want it unchanged", got, again, err)
		}
		var a, b map[string]json.RawMessage
		if json.Unmarshal(text, &a) != nil || json.Unmarshal(got, &b) != nil || len(a) != len(b) {
			t.Fatalf("Parse(%s) = %s", text, got)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", `{"a":1}`, "[1]", "a: b", "a=1,b=2", "a:\n - b: c", "{a: [b", "a: &x b\nc: *x", "? [a]\n: b", "<<: {a: 1}\nb: [c]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := arguments.Parse(text)
		if err != nil {
			return
		}
		var object map[string]any
		if err := json.Unmarshal(got, &object); err != nil || object == nil {
			t.Fatalf("Parse(%q) = %q, which is no object: %v", text, got, err)
		}
		again, err := arguments.Parse(string(got))
		if err != nil && !errors.Is(err, arguments.ErrTooLong) && !errors.Is(err, arguments.ErrTooDeep) {
			t.Fatalf("Parse(%s): %v", got, err)
		}
		if err == nil && string(again) != string(got) {
			t.Fatalf("Parse(%s) = %s, want it unchanged", got, again)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := arguments.Parse(`{"namespace":"shop","limit":100,"labels":{"app":"checkout"}}`); err != nil {
			b.Fatal(err)
		}
	}
}
