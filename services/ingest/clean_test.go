package ingest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestArgumentsAreCleanAndBounded(t *testing.T) {
	got := stripArgs([]any{"a\u200bb", 1.5, true, nil, map[string]any{"k\u202e": []any{"x\x1b"}}})
	want := []any{"ab", 1.5, true, nil, map[string]any{"k": []any{"x\u241b"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	many := make([]any, 10*maxValues)
	if got := cutArgs(many); len(got) != maxValues+1 || got[maxValues] != beyond {
		t.Errorf("%d values, the last is %v", len(got), got[len(got)-1])
	}
	long := cutArgs([]any{strings.Repeat("x", 2*maxArgs), "next"})
	if n := len(long[0].(string)); n > maxArgs+len(beyond) || long[1] != beyond {
		t.Errorf("%d characters, then %v", n, long[1])
	}
	var deep any = "bottom"
	for range 10_000 {
		deep = map[string]any{"\u200bdown": []any{deep}}
	}
	if text := fmt.Sprint(cutArgs(stripArgs([]any{deep}))); strings.Contains(text, "bottom") || !strings.Contains(text, beyond) {
		t.Errorf("%.300s", text)
	}
}

func TestHeadersAreCleanAndBounded(t *testing.T) {
	got := cutHeaders(stripHeaders(map[string]string{"X-\u200bA": "v\x00"}))
	if !reflect.DeepEqual(got, map[string]string{"X-A": "v\u2400"}) {
		t.Errorf("got %v", got)
	}
	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprintf("h%04d", i)] = "v"
	}
	if got := cutHeaders(many); len(got) != maxHeaders || got["h0000"] != "v" {
		t.Errorf("%d headers", len(got))
	}
	large := map[string]string{"a": strings.Repeat("x", 2*maxHeader), "b": "short"}
	if got := cutHeaders(large); len([]rune(got["a"])) != maxHeader || got["b"] != "short" {
		t.Errorf("a has %d characters, b is %q", len([]rune(got["a"])), got["b"])
	}
}
