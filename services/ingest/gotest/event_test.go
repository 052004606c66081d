package gotest

import (
	"encoding/json"
	"testing"
	"time"
)

func TestDecode(t *testing.T) {
	at := time.Date(2026, 1, 28, 14, 30, 0, 123, time.UTC)
	for _, tt := range []struct {
		name, line string
		want       event
		ok         bool
	}{
		{"a test's output", `{"Time":"2026-01-28T14:30:00.000000123Z","Action":"output","Package":"p","Test":"T/a","Output":"x\n"}` + "\n",
			event{Time: at, Action: actionOutput, Package: "p", Test: "T/a", Output: "x\n"}, true},
		{"a package that failed to build", `{"Action":"fail","Package":"p","Elapsed":0.01,"FailedBuild":"p [p.test]"}`,
			event{Action: actionFail, Package: "p", FailedBuild: "p [p.test]"}, true},
		{"a build's output", `{"ImportPath":"p","Action":"build-output","Output":"# p\n"}`,
			event{Action: actionBuildOutput, ImportPath: "p", Output: "# p\n"}, true},
		{"an attribute", `{"Action":"attr","Package":"p","Test":"T","Key":"k","Value":"v"}`, event{Action: "attr", Package: "p", Test: "T"}, true},
		{"fields that are not known", `{"Action":"pass","Package":"p","New":[{"a":1}]}`, event{Action: actionPass, Package: "p"}, true},
		{"text", "FAIL\n", event{}, false},
		{"text before", ` {"Action":"pass"}`, event{}, false},
		{"other JSON", `{"level":"info"}`, event{}, false},
		{"no object", `["Action"]`, event{}, false},
		{"a field of another type", `{"Action":"pass","Package":7}`, event{}, false},
		{"cut off", `{"Action":"pass"`, event{}, false},
		{"empty", "", event{}, false},
	} {
		if got, ok := decode([]byte(tt.line)); got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %+v, %v, want %+v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestParent(t *testing.T) {
	for test, want := range map[string]string{"": "", "TestA": "", "TestA/b": "TestA", "TestA/b/c": "TestA/b", "TestA/": "TestA", "/": ""} {
		if got := parent(test); got != want {
			t.Errorf("parent of %q: %q, want %q", test, got, want)
		}
	}
}

// FuzzDecode checks that an event stays the same when it is encoded and decoded again, and
// that a line that is none gives an empty event.
func FuzzDecode(f *testing.F) {
	for _, line := range []string{`{"Action":"run","Package":"p","Test":"T"}`, `{"Action":"output","Output":"\u0000\ud800"}`, `{"action":"PASS","Time":null}`, "{}", "{", ""} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, ok := decode([]byte(line))
		if !ok {
			if e != (event{}) {
				t.Errorf("decode(%q) = %+v and false, want an empty event", line, e)
			}
			return
		}
		data, err := json.Marshal(e)
		if err != nil {
			t.Skip("a year that JSON has no form for")
		}
		if again, ok := decode(data); !ok || !again.Time.Equal(e.Time) || again.Action != e.Action || again.Output != e.Output || again.Test != e.Test {
			t.Errorf("decode(%s) = %+v, %t, want %+v", data, again, ok, e)
		}
		for name, n := e.Test, 0; name != ""; n++ {
			if name = parent(name); n > len(e.Test) {
				t.Fatalf("parents of %q do not end: got %q after %d, want none", e.Test, name, n)
			}
		}
	})
}
