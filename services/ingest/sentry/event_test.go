package sentry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// decoded decodes one event of the store endpoint.
func decoded(t *testing.T, memory Memory, event string) []telemetry.Event {
	t.Helper()
	d, err := Sender{Project: "web", Memory: memory}.Store([]byte(event))
	if err != nil {
		t.Fatal(err)
	}
	return d.Events
}

// items decodes one item of an envelope.
func itemOf(t *testing.T, memory Memory, header, payload string) []telemetry.Event {
	t.Helper()
	d, err := Sender{Project: "web", Memory: memory}.Envelope([]byte("{}\n" + header + "\n" + payload))
	if err != nil {
		t.Fatal(err)
	}
	return d.Events
}

// line returns an event as one line, for tables.
func line(e telemetry.Event) string {
	switch {
	case e.Log != nil:
		return string(e.Log.Level) + " " + e.Log.Message
	case e.Network != nil:
		return fmt.Sprintf("%s %s %d %gms %s", e.Network.Method, e.Network.URL, e.Network.Status, e.Network.DurationMS, e.Network.Error)
	case e.Action != nil:
		return e.Action.Type + " " + e.Action.Target
	case e.Vitals != nil:
		var b strings.Builder
		b.WriteString("vitals")
		v := e.Vitals
		for _, m := range []struct {
			name  string
			value *float64
		}{{"fcp", v.FCP}, {"lcp", v.LCP}, {"inp", v.INP}, {"ttfb", v.TTFB}, {"load", v.Load}, {"cls", v.CLS}} {
			if m.value != nil {
				fmt.Fprintf(&b, " %s=%g", m.name, *m.value)
			}
		}
		return b.String()
	default:
		return string(e.Kind)
	}
}

func check(t *testing.T, events []telemetry.Event, want ...string) {
	t.Helper()
	got := make([]string, 0, len(events))
	for _, e := range events {
		if err := e.Validate(); err != nil {
			t.Errorf("an invalid event: %v, want only valid ones", err)
		}
		got = append(got, strings.TrimSpace(line(e)))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestTitlesAndLevels(t *testing.T) {
	for _, tt := range []struct{ name, event, want string }{
		{"an exception", `{"exception":{"values":[{"type":"E","value":"v"}]}}`, "error E: v"},
		{"the last of a chain", `{"exception":[{"type":"Cause","value":"c"},{"type":"E","value":"v"}],"level":"fatal"}`, "error E: v"},
		{"an exception without a type", `{"exception":[{"value":"v"}],"message":"m","level":"warning"}`, "warn v"},
		{"an exception without words", `{"exception":[{"type":"E"}]}`, "error E"},
		{"a message", `{"message":"m","level":"log"}`, "info m"},
		{"a message with its template", `{"logentry":{"message":"%s","formatted":"m"},"level":"info"}`, "info m"},
		{"a template alone", `{"logentry":{"message":"m %s"},"level":"debug"}`, "debug m %s"},
		{"a message as an object", `{"message":{"message":"%s","formatted":"m"}}`, "error m"},
		{"the words over an odd level", `{"message":"m","level":7}`, "info m"},
		{"nothing", `{}`, "error an event without a message"},
	} {
		t.Run(tt.name, func(t *testing.T) { check(t, decoded(t, nil, tt.event), tt.want) })
	}
}

func TestStacks(t *testing.T) {
	frames := func(names ...string) string {
		all := make([]string, len(names))
		for i, n := range names {
			all[i] = fmt.Sprintf(`{"function":%q,"filename":"f.js","lineno":%d,"colno":2,"in_app":%t}`, n, i+1, strings.HasPrefix(n, "my"))
		}
		return `{"frames":[` + strings.Join(all, ",") + `]}`
	}
	for _, tt := range []struct{ name, event, stack, source string }{
		{"newest first, source of the app's own", `{"exception":[{"type":"E","stacktrace":` + frames("main", "my", "lib") + `}]}`,
			"    at lib (f.js:3:2)\n    at my (f.js:2:2)\n    at main (f.js:1:2)", "f.js:2:2"},
		{"none of the app's own", `{"exception":[{"type":"E","stacktrace":` + frames("a", "b") + `}]}`,
			"    at b (f.js:2:2)\n    at a (f.js:1:2)", "f.js:2:2"},
		{"causes", `{"exception":[{"type":"C2","value":"x"},{"type":"C1","value":"y","stacktrace":` + frames("c") + `},{"type":"E","stacktrace":` + frames("e") + `}]}`,
			"    at e (f.js:1:2)\nCaused by: C1: y\n    at c (f.js:1:2)\nCaused by: C2: x", "f.js:1:2"},
		{"a module names what is no JavaScript", `{"platform":"python","exception":[{"stacktrace":{"frames":[{"function":"pay","module":"shop.till","abs_path":"/a.py","lineno":3}]}}]}`,
			"    at shop.till.pay (/a.py:3)", "/a.py:3"},
		{"a frame with few fields", `{"exception":[{"stacktrace":{"frames":[{},{"function":"?","lineno":"x"}]}}]}`,
			"    at <anonymous>\n    at <anonymous>", ""},
		{"the thread of a message", `{"message":"m","threads":{"values":[{"stacktrace":` + frames("other") + `},{"current":true,"stacktrace":` + frames("this") + `}]}}`,
			"    at this (f.js:1:2)", "f.js:1:2"},
		{"of a message itself", `{"message":"m","stacktrace":` + frames("this") + `}`, "    at this (f.js:1:2)", "f.js:1:2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := decoded(t, nil, tt.event)[0]
			if e.Log.Stack != tt.stack || e.Log.Source != tt.source {
				t.Errorf("stack\n%s\nsource %q, want\n%s\nsource %q", e.Log.Stack, e.Log.Source, tt.stack, tt.source)
			}
		})
	}
	many := strings.Repeat(`{"function":"f"},`, 500)
	e := decoded(t, nil, `{"exception":[{"stacktrace":{"frames":[`+many+`{}]}},{"stacktrace":{"frames":[`+many+`{}]}}]}`)[0]
	if n := strings.Count(e.Log.Stack, "    at "); n != maxFrames {
		t.Errorf("%d frames, want %d", n, maxFrames)
	}
}

func TestFingerprints(t *testing.T) {
	for _, tt := range []struct{ name, given, want string }{
		{"texts", `["checkout","timeout"]`, `["checkout" "timeout"]`},
		{"a variable stays as it is", `["{{ default }}","eu"]`, `["{{ default }}" "eu"]`},
		{"numbers and booleans as they are written", `["a",7,true]`, `["a" "7" "true"]`},
		{"a text", `"checkout"`, `["checkout"]`},
		{"an object in between is empty", `["a",{"b":1},null]`, `["a" "" ""]`},
		{"nothing", `[]`, `[]`},
		{"null", `null`, `[]`},
		{"an object", `{"a":"b"}`, `[]`},
		{"too many", `[` + strings.Repeat(`"a",`, 1000) + `"b"]`, `[]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := decoded(t, nil, `{"message":"m","fingerprint":`+tt.given+`}`)[0]
			if got := fmt.Sprintf("%q", e.Log.Fingerprint); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if e := decoded(t, nil, `{"message":"m"}`)[0]; e.Log.Fingerprint != nil {
		t.Errorf("fingerprint = %q, want none", e.Log.Fingerprint)
	}
}

func TestDetails(t *testing.T) {
	crumbs := strings.Repeat(`{"message":"old"},`, 40)
	e := decoded(t, nil, `{"message":"m","user":{"id":7,"email":"ada@example.com"},"tags":{"a":"b","n":3},"extra":{"long":"`+
		strings.Repeat("x", maxExtra)+`"},"breadcrumbs":[`+crumbs+`{"message":"new","data":{"a":1}}]}`)[0]
	details := e.Log.Args[0].(map[string]any)
	if got := fmt.Sprintf("%v %v %v", details["user_id"], details["tags"], details["extra"]); got != "7 map[a:b n:3] (8203 bytes are left out)" {
		t.Errorf("user, tags and extra = %s, want 7 map[a:b n:3] (8203 bytes are left out)", got)
	}
	trail := details["breadcrumbs"].([]any)
	if len(trail) != maxCrumbs || fmt.Sprint(trail[maxCrumbs-1]) != "map[data:map[a:1] message:new]" {
		t.Errorf("%d breadcrumbs, the last %v, want %d and map[data:map[a:1] message:new]", len(trail), trail[len(trail)-1], maxCrumbs)
	}
	if strings.Contains(fmt.Sprint(details), "ada@") {
		t.Errorf("details = %v, want no address of the user", details)
	}
}

func TestTimes(t *testing.T) {
	for given, want := range map[string]string{
		`1795259014.6184807`:               "2026-11-21T11:03:34.618Z",
		`"1795259014.5"`:                   "2026-11-21T11:03:34.5Z",
		`"2026-11-21T11:18:51.236619205Z"`: "2026-11-21T11:18:51.236Z",
		`"2026-11-21T12:18:51+01:00"`:      "2026-11-21T11:18:51Z",
		`"2026-11-21T11:18:51.5"`:          "2026-11-21T11:18:51.5Z",
		`"yesterday"`:                      "", `-1`: "", `1e300`: "", `null`: "", `{}`: "",
	} {
		e := decoded(t, nil, `{"message":"m","timestamp":`+given+`}`)[0]
		if got := e.Time; want == "" && !got.IsZero() || want != "" && got.Format(time.RFC3339Nano) != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}
