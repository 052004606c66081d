package redact

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// A rule that fails masks the whole value: only that value, but all of it.
func TestARuleThatPanics(t *testing.T) {
	t.Parallel()
	e := newEngine(append(allRules(), rule{starts: []string{"boom"}, byName: true, match: func(cursor) hit { panic("a bug") }}), newVendors())
	for name, mask := range map[string]func(string) string{
		"String": e.String, "URL": e.URL, "Body": e.Body,
		"Header":  func(s string) string { return e.Header("accept", s) },
		"encoded": func(s string) string { return e.URL(strings.ReplaceAll(s, "boom", "%62oom")) },
	} {
		if got := mask("/before?boom=1"); got != Mask {
			t.Errorf("%s = %q, want %q", name, got, Mask)
		}
	}
	ev := telemetry.Event{Log: &telemetry.Log{Message: "a boom", Stack: "fine", Args: []any{"boom", "fine", map[string]any{"boom": "x"}}}}
	e.Event(&ev)
	if l := ev.Log; l.Message != Mask || l.Stack != "fine" || l.Args[0] != any(Mask) || l.Args[1] != any("fine") {
		t.Errorf("masked to %+v, want only the values with boom masked", l)
	}
}

// A rule whose hit makes no sense costs the value too, and never ends the
// process or the scan.
func TestARuleThatIsWrong(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]hit{
		"beyond the end": {from: 0, to: 1 << 20}, "backwards": {from: 5, to: 1}, "before the text": {from: -1, to: 3},
		"never done": {from: 0, to: 1, text: "xx"},
	} {
		e := newEngine([]rule{{starts: []string{"x"}, match: func(cursor) hit { return h }}}, newVendors())
		if got := e.String("x y z"); got != Mask {
			t.Errorf("a hit that is %s: String = %q, want %q", name, got, Mask)
		}
	}
}

func TestNoMoreRulesThanBits(t *testing.T) {
	t.Parallel()
	if n := len(allRules()); n > maxRules {
		t.Fatalf("%d rules, want at most %d", n, maxRules)
	}
	defer func() {
		if recover() == nil {
			t.Error("newEngine with too many rules did not panic, want a panic")
		}
	}()
	newEngine(make([]rule, maxRules+1), newVendors())
}
