package sentry

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
)

// saying returns an event of a few bytes.
func saying(words string) string { return fmt.Sprintf(`{"message":%q,"level":"info"}`, words) }

// measured returns an event whose item header has a length.
func measured(event string) string {
	return fmt.Sprintf("{\"type\":\"event\",\"length\":%d}\n%s", len(event), event)
}

// TestFraming decodes envelopes in every form that the items may have.
func TestFraming(t *testing.T) {
	for _, tt := range []struct {
		name, envelope string
		want           []string // messages
		wantErr        string
	}{
		{"nothing but a header", `{}`, nil, ""},
		{"lines", "{}\n{\"type\":\"event\"}\n" + saying("a") + "\n{\"type\":\"event\"}\n" + saying("b"), []string{"a", "b"}, ""},
		{"a line feed at the end", "{}\n{\"type\":\"event\"}\n" + saying("a") + "\n\n", []string{"a"}, ""},
		{"empty lines between", "{}\n\n{\"type\":\"event\"}\n" + saying("a") + "\n\n\n{\"type\":\"event\"}\n" + saying("b"), []string{"a", "b"}, ""},
		{"line feeds of Windows", "{}\r\n{\"type\":\"event\"}\r\n" + saying("a") + "\r\n", []string{"a"}, ""},
		{"lengths", "{}\n" + measured(saying("a\n")) + "\n" + measured(saying("bb")), []string{"a\n", "bb"}, ""},
		{"a length over lines", "{}\n" + measured("{\n\"message\":\n\"a\"}") + "\n", []string{"a"}, ""},
		{"an attachment of any bytes", "{}\n{\"type\":\"attachment\",\"length\":3}\n\x00\n{\n{\"type\":\"event\"}\n" + saying("a"), []string{"a"}, ""},
		{"an empty payload", "{}\n{\"type\":\"attachment\",\"length\":0}\n\n{\"type\":\"event\"}\n" + saying("a"), []string{"a"}, ""},
		{"a broken item beside another", "{}\n{\"type\":\"event\"}\n{broken\n{\"type\":\"event\"}\n" + saying("a"), []string{"a"}, ""},
		{"an unknown type", "{}\n{\"type\":\"x\"}\n{}\n{\"type\":\"event\"}\n" + saying("a"), []string{"a"}, ""},
		{"no type", "{}\n{}\n{}\n{\"type\":\"event\"}\n" + saying("a"), []string{"a"}, ""},

		{"nothing", "", nil, "the envelope is empty"},
		{"no header", "\n{\"type\":\"event\"}\n{}", nil, "the envelope is empty"},
		{"a header that is no object", "[]\n", nil, "the envelope's header"},
		{"an item's header that is no JSON", "{}\nx\n{}", nil, "an item's header"},
		{"a length that is too long", "{}\n{\"type\":\"event\",\"length\":9}\n{}", nil, "length"},
		{"a length that is negative", "{}\n{\"type\":\"event\",\"length\":-1}\n{}", nil, "length"},
		{"a length that is too short", "{}\n{\"type\":\"event\",\"length\":1}\n{}", nil, "line feed"},
		{"nothing but a broken item", "{}\n{\"type\":\"event\"}\n{broken", nil, "item 0 (event): malformed JSON"},
		{"nothing but an item that is no object", "{}\n{\"type\":\"log\"}\n[]", nil, "must be a JSON object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Sender{Project: "1"}.Envelope([]byte(tt.envelope))
			if tt.wantErr != "" || err != nil {
				if err == nil || tt.wantErr == "" || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want one with %q", err, tt.wantErr)
				}
				return
			}
			var got []string
			for _, e := range d.Events {
				got = append(got, e.Log.Message)
			}
			if strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestBounds checks that small bodies that would take much memory are refused.
func TestBounds(t *testing.T) {
	item := func(kind, payload string) string { return "{}\n{\"type\":\"" + kind + "\"}\n" + payload }
	for name, envelope := range map[string]string{
		"items":    "{}\n" + strings.Repeat("{\"type\":\"x\"}\n{}\n", decoding.MaxItems+1),
		"logs":     item("log", `{"items":[`+strings.Repeat(`{},`, decoding.MaxItems)+`{}]}`),
		"spans":    item("transaction", `{"type":"transaction","spans":[`+strings.Repeat(`{},`, decoding.MaxItems)+`{}]}`),
		"values":   item("event", `{"extra":[`+strings.Repeat(`1,`, decoding.MaxParts)+`1]}`),
		"depth":    item("event", `{"extra":`+strings.Repeat(`[`, decoding.MaxDepth)+strings.Repeat(`]`, decoding.MaxDepth)+`}`),
		"a header": strings.Repeat(`{"trace":`, decoding.MaxDepth+1) + strings.Repeat(`}`, decoding.MaxDepth+1),
		"a tail":   item("event", strings.Repeat(`{"exception":`, 1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Sender{Project: "1"}.Envelope([]byte(envelope))
			if !errors.Is(err, decoding.ErrTooMany) {
				t.Errorf("error %v, want ErrTooMany", err)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		name, project, header, event, app, session, url string
	}{
		{"the tag", "7", `{}`, `{"tags":{"app":"till"},"contexts":{"app":{"app_name":"App"}},"release":"web@1"}`, "till", "", ""},
		{"tags as pairs", "7", `{}`, `{"tags":[["app","till"],["url","/x"],3,[1]]}`, "till", "", "/x"},
		{"the app's name", "7", `{}`, `{"contexts":{"app":{"app_name":"App"}},"release":"web@1"}`, "App", "", ""},
		{"the release", "7", `{}`, `{"release":"web@1.2.3"}`, "web", "", ""},
		{"the envelope's release", "7", `{"trace":{"release":"web@1","trace_id":"t1"}}`, `{"release":"6f2a"}`, "web", "t1", ""},
		{"a release without a name", "shop", `{}`, `{"release":"6f2a"}`, "shop", "", ""},
		{"the project", "shop", `{}`, `{}`, "shop", "", ""},
		{"the project's number", "7", `{}`, `{}`, "sentry-7", "", ""},
		{"the trace", "7", `{"trace":{"trace_id":"t1"}}`, `{"contexts":{"trace":{"trace_id":"t2"}}}`, "sentry-7", "t2", ""},
		{"the request", "7", `{}`, `{"request":{"url":"http://a/"},"tags":{"url":"/x"}}`, "sentry-7", "", "http://a/"},
		{"what PHP calls an object", "7", `{}`, `{"tags":[],"contexts":[],"extra":[],"request":[],"user":[],"breadcrumbs":[]}`, "sentry-7", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Sender{Project: tt.project}.Envelope([]byte(tt.header + "\n{\"type\":\"event\"}\n" + tt.event))
			if err != nil || len(d.Events) != 1 {
				t.Fatalf("error %v, %d events, ignored %v, want one event", err, len(d.Events), d.Ignored)
			}
			if e := d.Events[0]; e.App != tt.app || e.Session != tt.session || e.URL != tt.url {
				t.Errorf("app %q, session %q, URL %q, want %q, %q, %q", e.App, e.Session, e.URL, tt.app, tt.session, tt.url)
			}
		})
	}
}

// TestRelease checks that the item's own release comes first, and that one that is too long
// to be in each event is dropped.
func TestRelease(t *testing.T) {
	for _, tt := range []struct{ name, header, event, want string }{
		{"the event's", `{"trace":{"release":"web@1"}}`, `{"release":"6f2a"}`, "6f2a"},
		{"the trace's", `{"trace":{"release":"web@1"}}`, `{}`, "web@1"},
		{"none", `{}`, `{}`, ""},
		{"too long", `{}`, `{"release":"` + strings.Repeat("x", maxShared+1) + `"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Sender{Project: "1"}.Envelope([]byte(tt.header + "\n{\"type\":\"event\"}\n" + tt.event))
			if err != nil || len(d.Events) != 1 || d.Events[0].Release != tt.want {
				t.Errorf("events = %+v, %v, want one with release %q", d.Events, err, tt.want)
			}
		})
	}
}

func TestID(t *testing.T) {
	const id, other = "c19b235965dc413e9ef55f18450c3ae5", "37f6155611de45e9a94807ce19ff5ff4"
	for _, tt := range []struct{ name, header, event, want string }{
		{"of the event", `{"event_id":"` + other + `"}`, `{"event_id":"` + id + `"}`, id},
		{"of the envelope", `{"event_id":"` + other + `"}`, `{}`, other},
		{"none", `{}`, `{}`, ""},
		{"no id", `{}`, `{"event_id":"` + strings.Repeat("<", 32) + `"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Sender{Project: "1"}.Envelope([]byte(tt.header + "\n{\"type\":\"event\"}\n" + tt.event))
			if err != nil || d.ID != tt.want {
				t.Errorf("ID = %q, %v, want %q", d.ID, err, tt.want)
			}
		})
	}
}

func TestKeyOf(t *testing.T) {
	for envelope, want := range map[string]string{
		"{\"dsn\":\"http://k3y@127.0.0.1:7400/1\"}\n{}\n": "k3y", `{"dsn":"http://127.0.0.1/1"}`: "", `{"dsn":"%"}`: "", `{}`: "", ``: "", `[]`: "", `{"dsn":7}`: "",
	} {
		if got := KeyOf([]byte(envelope)); got != want {
			t.Errorf("KeyOf(%s) = %q, want %q", envelope, got, want)
		}
	}
}

// TestSpend checks that checkBounds counts values, and nothing in strings.
func TestSpend(t *testing.T) {
	for payload, want := range map[string]int{
		`{}`: 1, `[1,2,[3]]`: 4, `"a,b[{"`: 0, `"\",[",1`: 1, `"\\",1`: 1, `"\\\",",1`: 1, `"open,`: 0, `"\`: 0, `{"a":"b","c":{}}`: 3,
	} {
		d := newDecoder(Sender{})
		if err := d.checkBounds([]byte(payload)); err != nil || d.parts != want {
			t.Errorf("%s: %d parts, error %v, want %d", payload, d.parts, err, want)
		}
	}
}
