package telemetry_test

import (
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var update = flag.Bool("update", false, "overwrite the golden files")

func TestDecode(t *testing.T) {
	const line = `{"kind":"log","log":{"level":"info","message":"hi"}}`
	for _, tt := range []struct {
		name string
		form telemetry.Form
		body string
		want int
	}{
		{"an object", telemetry.FormJSON, line, 1},
		{"an array", telemetry.FormJSON, "[" + line + "," + line + "]", 2},
		{"an empty array", telemetry.FormJSON, "[]", 0},
		{"lines", telemetry.FormNDJSON, line + "\n" + line + "\n", 2},
		{"lines with empty ones and CRLF", telemetry.FormNDJSON, "\r\n" + line + "\r\n\r\n" + line, 2},
		{"a beacon with an array", telemetry.FormAny, " [" + line + "]", 1},
		{"a beacon with lines", telemetry.FormAny, line + "\n" + line, 2},
		{"a beacon on several lines", telemetry.FormAny, "{\n\"kind\":\"log\",\n\"log\":{\"level\":\"info\",\"message\":\"hi\"}\n}\n", 1},
		{"a beacon with one line", telemetry.FormAny, line + "\n", 1},
		{"a beacon with two objects on a line", telemetry.FormAny, line + line, -1},
		{"an object on several lines", telemetry.FormJSON, "{\n\"kind\":\"log\",\n\"log\":{\"level\":\"info\",\"message\":\"hi\"}\n}\n", 1},
		{"an array as the line of NDJSON is no event", telemetry.FormNDJSON, "[" + line + "]", -1},
		{"unknown fields", telemetry.FormJSON, `{"kind":"log","x":{"y":1},"log":{"level":"info","message":"hi","z":[1]}}`, 1},
		{"a payload of another kind beside its own", telemetry.FormJSON, `{"kind":"log","action":{},"log":{"level":"info","message":"hi"}}`, 1},
		{"a number for the payload of another kind", telemetry.FormJSON, `{"kind":"log","memory":123,"log":{"level":"info","message":"hi"},"action":"clicked","network":{"status":"x"},"vitals":{"cls":-1}}`, 1},
		{"the same before the kind", telemetry.FormJSON, `{"memory":123,"action":"clicked","network":{"status":"x"},"log":{"level":"info","message":"hi"},"kind":"log"}`, 1},
		{"an escaped name", telemetry.FormJSON, `{"\u006bind":"l\u006fg","l\u006fg":{"level":"inf\u006f","message":"hi"}}`, 1},
		{"an empty message", telemetry.FormJSON, `{"kind":"log","log":{"level":"info","message":""}}`, 1},
		{"names that are long", telemetry.FormJSON, `{"kind":"log","app":"` + strings.Repeat("a", 129) + `","session":"` + strings.Repeat("s", 999) + `","log":{"level":"info","message":"hi"}}`, 1},
		{"nulls for what is optional", telemetry.FormJSON, `{"kind":"network","app":null,"session":null,"time":null,"url":null,"network":{"method":"GET","url":"/x","status":0,"duration_ms":null,"request_headers":null}}`, 1},
		{"statuses that are whole numbers", telemetry.FormJSON, `[{"kind":"network","network":{"method":"GET","url":"/x","status":200.0}},{"kind":"network","network":{"method":"GET","url":"/x","status":2e2}},{"kind":"network","network":{"method":"GET","url":"/x","status":999}}]`, 3},
		{"releases that are none", telemetry.FormJSON, `[{"kind":"log","release":7,"log":{"level":"info","message":"hi"}},{"kind":"log","release":{"a":["b"]},"log":{"level":"info","message":"hi"}},{"kind":"log","release":null,"log":{"level":"info","message":"hi"}}]`, 3},
		{"a lone surrogate", telemetry.FormJSON, `{"kind":"log","log":{"level":"info","message":"cut \ud83d"}}`, 1},
		{"a failed request", telemetry.FormJSON, `{"kind":"network","network":{"method":"GET","url":"/x","status":0}}`, 1},
		{"nothing measured but CLS 0", telemetry.FormJSON, `{"kind":"vitals","vitals":{"cls":0}}`, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events, err := telemetry.Decode(tt.form, []byte(tt.body))
			if tt.want < 0 {
				if err == nil {
					t.Errorf("Decode = %d events, want an error", len(events))
				}
				return
			}
			if err != nil || len(events) != tt.want {
				t.Fatalf("Decode = %d events, %v, want %d", len(events), err, tt.want)
			}
			for _, e := range events {
				if e.App != telemetry.DefaultApp && !strings.Contains(tt.body, e.App) {
					t.Errorf("app = %q, want %q or one of the body", e.App, telemetry.DefaultApp)
				}
			}
		})
	}
}

// TestOnlyTheNamedPayloadIsThere checks that payloads of other kinds are unknown fields.
func TestOnlyTheNamedPayloadIsThere(t *testing.T) {
	const want = `[{"kind":"memory","app":"default","memory":{"used_bytes":1,"limit_bytes":2}}]`
	for _, body := range []string{
		`{"kind":"memory","log":{"level":"info","message":"hi"},"memory":{"used_bytes":1,"limit_bytes":2},"security":{"type":"csp"}}`,
		`{"log":{"level":"info","message":"hi"},"memory":{"used_bytes":1,"limit_bytes":2},"security":{"type":"csp"},"kind":"memory"}`,
	} {
		events, err := telemetry.Decode(telemetry.FormJSON, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := telemetry.Encode(events); err != nil || string(got) != want {
			t.Errorf("Encode = %s, %v, want %s", got, err, want)
		}
	}
}

// TestDevice checks that an unknown class of devices is ignored, and does not refuse the event.
func TestDevice(t *testing.T) {
	for value, want := range map[string]telemetry.Device{
		`"mobile"`: telemetry.DeviceMobile, `"tablet"`: telemetry.DeviceTablet, `"desktop"`: telemetry.DeviceDesktop,
		`"mob\u0069le"`: telemetry.DeviceMobile,
		`""`:            "", `"Mobile"`: "", `"phone"`: "", `"mobile "`: "", `null`: "", `7`: "", `1e999`: "", `true`: "",
		`["mobile"]`: "", `{"class":"mobile"}`: "", `"\ud83d"`: "", "\"mobile\xff\"": "",
	} {
		vitals := `{"device":` + value + `,"lcp_ms":5}`
		for _, body := range []string{`{"kind":"vitals","vitals":` + vitals + `}`, `{"vitals":` + vitals + `,"kind":"vitals"}`} {
			events, err := telemetry.Decode(telemetry.FormJSON, []byte(body))
			if err != nil || len(events) != 1 || events[0].Vitals.Device != want || *events[0].Vitals.LCP != 5 {
				t.Errorf("%s: %+v, %v, want device %q", body, events, err, want)
			}
		}
	}
	const nothing = `{"kind":"vitals","vitals":{"device":"mobile"}}`
	if _, err := telemetry.Decode(telemetry.FormJSON, []byte(nothing)); err == nil {
		t.Error("Decode of a device alone = nil error, want one: nothing is measured")
	}
}

// TestRelease checks that only a string is a release. Any other value is an unknown field,
// as it was before there was a release.
func TestRelease(t *testing.T) {
	for value, want := range map[string]string{
		`"web@1.2.3"`: "web@1.2.3", `"9f\u0033c2ab"`: "9f3c2ab", `""`: "", `null`: "", `7`: "", `true`: "", `["web"]`: "", `{"name":"web"}`: "",
	} {
		body := `[{"kind":"log","release":"before","log":{"level":"info","message":"hi"}},{"kind":"log","release":` + value + `,"log":{"level":"info","message":"hi"}}]`
		events, err := telemetry.Decode(telemetry.FormJSON, []byte(body))
		if err != nil || len(events) != 2 || events[1].Release != want {
			t.Errorf("Decode with the release %s = %+v, %v, want %q", value, events, err, want)
		}
	}
}

// TestHeadersAsNodeAndFetchHaveThem checks both forms: Node has arrays for headers that may repeat,
// and fetch's Headers are lists of pairs.
func TestHeadersAsNodeAndFetchHaveThem(t *testing.T) {
	for headers, want := range map[string]map[string]string{
		`{"set-cookie":["a=1","b=2"],"vary":"accept"}`:           {"set-cookie": "a=1, b=2", "vary": "accept"},
		`{"a":[],"b":["x",1,true,null]}`:                         {"a": "", "b": "x, 1, true, "},
		`[["set-cookie","a=1"],["vary","b"],["set-cookie","c"]]`: {"set-cookie": "a=1, c", "vary": "b"},
		`[["content-length",12],["set-cookie",["a","b"]]]`:       {"content-length": "12", "set-cookie": "a, b"},
		`["set-cookie","a=1","Vary","b","set-cookie","c","n",1]`: {"set-cookie": "a=1, c", "Vary": "b", "n": "1"},
		`[]`: {},
	} {
		for _, form := range []string{
			`{"kind":"network","network":{"method":"GET","url":"/x","status":200,"response_headers":` + headers + `}}`,
			`{"network":{"method":"GET","url":"/x","status":200,"response_headers":` + headers + `},"kind":"network"}`,
		} {
			events, err := telemetry.Decode(telemetry.FormJSON, []byte(form))
			if err != nil {
				t.Errorf("Decode with the headers %s = %v, want %q", headers, err, want)
				continue
			}
			if got := events[0].Network.ResponseHeaders; !maps.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", headers, got, want)
			}
		}
	}
}

func TestHeadersAreTakenAsTheyStand(t *testing.T) {
	events, err := telemetry.Decode(telemetry.FormJSON, []byte(`{"kind":"network","network":{"method":"GET","url":"/x","status":200,"request_headers":{"a":1.50,"b":true,"c":null,"d":"e\u0066"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := events[0].Network.RequestHeaders, (map[string]string{"a": "1.50", "b": "true", "c": "", "d": "ef"}); !reflect.DeepEqual(got, want) {
		t.Errorf("headers = %v, want %v", got, want)
	}
}

// TestNoIndexBehindAnArray checks that an error after the array names no event of it.
func TestNoIndexBehindAnArray(t *testing.T) {
	const good = `{"kind":"log","log":{"level":"info","message":"hi"}}`
	for _, rest := range []string{"x", ",", "]", good, "[]"} {
		_, err := telemetry.Decode(telemetry.FormJSON, []byte("["+good+"]"+rest))
		var field *telemetry.FieldError
		if err == nil || errors.As(err, &field) {
			t.Errorf("Decode with %s after the array = %v, want an error without an index", rest, err)
		}
	}
}

// TestTextsOfTheEventBefore: what one event lends to the next is only what the
// next says too.
func TestTextsOfTheEventBefore(t *testing.T) {
	texts := []string{`a`, `a\\n`, `a\n`, `a\\n`, "\xff", `\ufffd`, "\xff", ``, `a`}
	want := []string{"a", `a\n`, "a\n", `a\n`, "\ufffd", "\ufffd", "\ufffd", "", "a"}
	lines := make([]string, len(texts))
	for i, text := range texts {
		lines[i] = `{"kind":"log","url":"` + text + `","log":{"level":"info","message":"` + text + `"}}`
	}
	events, err := telemetry.Decode(telemetry.FormNDJSON, []byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		if e.URL != want[i] || e.Log.Message != want[i] {
			t.Errorf("%d: %q and %q, want %q", i, e.URL, e.Log.Message, want[i])
		}
	}
}

func TestRefusals(t *testing.T) {
	const good = `{"kind":"log","log":{"level":"info","message":"hi"}}`
	for _, tt := range []struct {
		name, body string
		index      int
		want       string
	}{
		{"no kind", `{}`, 0, "kind must be one of log, network, vitals, action, memory, circuit, security"},
		{"unknown kind", `{"kind":"trace"}`, 0, "kind must be one of log, network"},
		{"no payload", `{"kind":"log"}`, 0, "log is required for an event of kind log"},
		{"payload of the wrong kind", `{"kind":"log","network":{"method":"GET","url":"/","status":200}}`, 0, "log is required"},
		{"null payload", `{"kind":"vitals","vitals":null}`, 0, "vitals is required"},
		{"level", `{"kind":"log","log":{"level":"fatal","message":"x"}}`, 0, "log.level must be one of debug, info, warn, error"},
		{"no message", `{"kind":"log","log":{"level":"info"}}`, 0, "log.message is required"},
		{"message is a number", `{"kind":"log","log":{"level":"info","message":5}}`, 0, "log.message must be a string"},
		{"no status", `{"kind":"network","network":{"method":"GET","url":"/x"}}`, 0, "network.status is required"},
		{"null status", `{"kind":"network","network":{"method":"GET","url":"/x","status":null}}`, 0, "network.status"},
		{"status is text", `{"kind":"network","network":{"method":"GET","url":"/x","status":"200"}}`, 0, "network.status must be a whole number from 0 to 999"},
		{"status 1000", `{"kind":"network","network":{"method":"GET","url":"/x","status":1000}}`, 0, "network.status must be a whole number from 0 to 999"},
		{"status 200.5", `{"kind":"network","network":{"method":"GET","url":"/x","status":200.5}}`, 0, "network.status must be a whole number from 0 to 999"},
		{"negative duration", `{"kind":"network","network":{"method":"GET","url":"/x","status":200,"duration_ms":-1}}`, 0, "network.duration_ms must not be negative"},
		{"header is an object", `{"kind":"network","network":{"method":"GET","url":"/x","status":200,"request_headers":{"a":{}}}}`, 0, "network.request_headers.a must be a string"},
		{"nothing measured", `{"kind":"vitals","vitals":{}}`, 0, "vitals must have at least one of fcp_ms"},
		{"negative vital", `{"kind":"vitals","vitals":{"lcp_ms":-1}}`, 0, "vitals.lcp_ms must not be negative"},
		{"vital is text", `{"kind":"vitals","vitals":{"lcp_ms":"fast"}}`, 0, "vitals.lcp_ms must be a number of milliseconds"},
		{"action", `{"kind":"action","action":{"type":"hover","target":"#a"}}`, 0, "action.type must be one of click, input, submit, navigate"},
		{"action without target", `{"kind":"action","action":{"type":"click"}}`, 0, "action.target is required"},
		{"memory", `{"kind":"memory","memory":{"used_bytes":1}}`, 0, "memory.limit_bytes must be a positive number of bytes"},
		{"circuit", `{"kind":"circuit","circuit":{"name":"db","state":"broken"}}`, 0, "circuit.state must be one of closed, half_open, open"},
		{"security", `{"kind":"security","security":{}}`, 0, "security.type is required"},
		{"time", `{"kind":"log","time":"yesterday","log":{"level":"info","message":"hi"}}`, 0, "time must be an RFC 3339 time"},
		{"time is empty", `{"kind":"log","time":"","log":{"level":"info","message":"hi"}}`, 0, "time must be an RFC 3339 time"},
		{"null message", `{"kind":"log","log":{"level":"info","message":null}}`, 0, "log.message is required"},
		{"header is a list of lists", `{"kind":"network","network":{"method":"GET","url":"/x","status":200,"response_headers":{"set-cookie":[["a"]]}}}`, 0, "network.response_headers.set-cookie must be a string, a number, a boolean or an array of these"},
		{"headers are a list of texts", `{"kind":"network","network":{"method":"GET","url":"/x","status":200,"response_headers":["a","b","c"]}}`, 0, "network.response_headers must be an object"},
		{"headers are a list that begins with a text", `{"kind":"network","network":{"method":"GET","url":"/x","status":200,"response_headers":["a","b",["c","d"]]}}`, 0, "network.response_headers must be an object"},
		{"headers are a list of names", `{"kind":"network","network":{"method":"GET","url":"/x","status":200,"response_headers":[["a"]]}}`, 0, "network.response_headers must be an object"},
		{"headers are a list of numbers", `{"kind":"network","network":{"method":"GET","url":"/x","status":200,"response_headers":[[1,"a"]]}}`, 0, "network.response_headers must be an object"},
		{"headers are a list of triples", `{"kind":"network","network":{"method":"GET","url":"/x","status":200,"response_headers":[["a","b","c"]]}}`, 0, "network.response_headers must be an object"},
		{"headers are a list of nothing", `{"kind":"network","network":{"method":"GET","url":"/x","status":200,"response_headers":[[]]}}`, 0, "network.response_headers must be an object"},
		{"headers are a text", `{"kind":"network","network":{"method":"GET","url":"/x","status":200,"request_headers":"a: b"}}`, 0, "network.request_headers must be an object of strings, numbers, booleans and arrays of these, an array of [name, value] pairs, or an array of names and values by turns"},
		{"a number in args that is too large", `{"kind":"log","log":{"level":"info","message":"x","args":[1,{"a":1e999}]}}`, 0, "log.args.1.a must be a number, no larger than 1.8e308"},
		{"a vital that is too large", `{"kind":"vitals","vitals":{"lcp_ms":1e999}}`, 0, "vitals.lcp_ms must be a number of milliseconds, no larger than 1.8e308"},
		{"a duration that is too large", `{"kind":"network","network":{"method":"GET","url":"/x","status":200,"duration_ms":1e999}}`, 0, "network.duration_ms must be a number of milliseconds, no larger than 1.8e308"},
		{"a payload that is wrong and before its kind", `{"log":{"level":"info","message":[]},"kind":"log"}`, 0, "log.message must be a string"},
		{"a vital that is wrong and before its kind", `{"vitals":{"cls":"x"},"kind":"vitals"}`, 0, "vitals.cls must be a number"},
		{"a payload beside its own that is no JSON", `{"kind":"log","log":{"level":"info","message":"hi"},"action":{1}}`, 0, "malformed JSON"},
		{"a comma too many", `[` + good + `,]`, 1, "malformed JSON"},
		{"an array that is cut", `[` + good + `,` + good, 2, "malformed JSON"},
		{"an array that is cut after a comma", `[` + good + `,`, 1, "malformed JSON"},
		{"a comma too few", `[` + good + good + `]`, 1, "malformed JSON"},
		{"a comma at the beginning", `[,` + good + `]`, 0, "malformed JSON"},
		{"the first wrong one counts", `[` + good + `,{},{"kind":`, 1, "kind must be one of"},
		{"two objects", good + good, 0, "event is followed by something"},
		{"the third of a batch", `[` + good + `,` + good + `,{"kind":"log","log":{"level":"loud","message":"x"}}]`, 2, "log.level must be one of"},
		{"the second of a batch is a number", `[` + good + `,7]`, 1, "event must be a JSON object"},
		{"the second of a batch is cut", `[` + good + `,{"kind":"log","log":{"lev`, 1, "malformed JSON"},
		{"no object", `"hello"`, 0, "event must be a JSON object"},
		{"cut", `{"kind":"log"`, 0, "malformed JSON"},
		{"twice the same field", `{"kind":"log","kind":"log","log":{"level":"info","message":"hi"}}`, 0, "malformed JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := telemetry.Decode(telemetry.FormJSON, []byte(tt.body))
			var field *telemetry.FieldError
			if !errors.As(err, &field) || field.Index != tt.index || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v (%+v), want event %d: %s", err, field, tt.index, tt.want)
			}
		})
	}
	for name, c := range map[string]struct {
		body  string
		index int
	}{
		"a wrong line":                 {good + "\n" + `{"kind":"x"}`, 1},
		"empty lines don't count":      {"\n" + good + "\n\n\r\n" + `{"kind":"x"}`, 1},
		"two objects on a line":        {good + "\n" + good + " " + good, 1},
		"a comma behind an object":     {good + ",\n" + good, 0},
		"an object on two lines":       {good + "\n" + strings.Replace(good, ",", ",\n", 1) + "\n" + good, 1},
		"an array":                     {good + "\n[" + good + "]", 1},
		"a line that breaks off":       {good + "\n" + good + "\n" + good[:20], 2},
		"a wrong line before another":  {good + "\n{\n{", 1},
		"a wrong event before another": {good + "\n{}\n{", 1},
	} {
		_, err := telemetry.Decode(telemetry.FormNDJSON, []byte(c.body))
		var field *telemetry.FieldError
		if !errors.As(err, &field) || field.Index != c.index {
			t.Errorf("NDJSON, %s: error %v, want one of event %d", name, err, c.index)
		}
	}
	for _, body := range []string{"", " \n", "\ufeff"} {
		if _, err := telemetry.Decode(telemetry.FormJSON, []byte(body)); err == nil {
			t.Errorf("Decode(%q) = nil error, want one", body)
		}
	}
}

// TestGolden holds the form of a message on the bus, with every field of every
// kind.
func TestGolden(t *testing.T) {
	body, err := os.ReadFile(filepath.Join("testdata", "events.json"))
	if err != nil {
		t.Fatal(err)
	}
	events, err := telemetry.Decode(telemetry.FormJSON, body)
	if err != nil {
		t.Fatal(err)
	}
	message, err := telemetry.Encode(events)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "message.golden.json")
	if *update {
		if err := os.WriteFile(golden, message, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(message) {
		t.Errorf("got  %s\nwant %s", message, want)
	}
	again, err := telemetry.DecodeMessage(message)
	if err != nil || !reflect.DeepEqual(again, events) {
		t.Errorf("DecodeMessage = %+v, %v, want %+v", again, err, events)
	}
}

func FuzzDecode(f *testing.F) {
	body, err := os.ReadFile(filepath.Join("testdata", "events.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"kind":"log","log":{"level":"info","message":"\ud83d"}}`))
	f.Add([]byte(`[[[[`))
	f.Add([]byte(`[{"kind":"network","network":{"method":"GET","url":"/","status":200,"response_headers":[["a","b"],["a",["c",1]]],"request_headers":{"a":["b",null]}}}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, form := range []telemetry.Form{telemetry.FormJSON, telemetry.FormNDJSON, telemetry.FormAny} {
			events, err := telemetry.Decode(form, body)
			if err != nil {
				if len(err.Error()) > 500+3*len(body) || events != nil {
					t.Fatalf("Decode = %d events and error %v, want none and a bounded text", len(events), err)
				}
				continue
			}
			message, err := telemetry.Encode(events)
			if err != nil {
				t.Fatalf("encode what was accepted: %v", err)
			}
			again, err := telemetry.DecodeMessage(message)
			if err != nil || len(again) != len(events) {
				t.Fatalf("DecodeMessage = %d events, %v, want %d", len(again), err, len(events))
			}
		}
	})
}

func BenchmarkDecode100(b *testing.B) {
	network := `{"kind":"network","app":"web","session":"s1","time":"2026-01-28T14:30:00.000Z","url":"http://localhost:3000/cart","network":{"method":"GET","url":"/api/users","status":200,"duration_ms":12.5}}`
	for name, line := range map[string]string{
		"requests":     network,
		"logs":         `{"kind":"log","app":"web","session":"s1","time":"2026-01-28T14:30:00.000Z","url":"http://localhost:3000/cart","log":{"level":"info","message":"loaded 7 items of the cart"}}`,
		"vitals":       `{"kind":"vitals","app":"web","session":"s1","time":"2026-01-28T14:30:00.000Z","url":"http://localhost:3000/cart","vitals":{"lcp_ms":1250.5,"cls":0.01}}`,
		"kind at last": `{` + strings.TrimPrefix(strings.TrimSuffix(network, "}"), `{"kind":"network",`) + `,"kind":"network"}`,
	} {
		b.Run(name, func(b *testing.B) {
			body := []byte("[" + strings.Repeat(line+",", 99) + line + "]")
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := telemetry.Decode(telemetry.FormJSON, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
