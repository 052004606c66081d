package telemetry_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var update = flag.Bool("update", false, "write the golden files anew")

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
		{"an array as the line of NDJSON is no event", telemetry.FormNDJSON, "[" + line + "]", -1},
		{"unknown fields", telemetry.FormJSON, `{"kind":"log","x":{"y":1},"log":{"level":"info","message":"hi","z":[1]}}`, 1},
		{"a payload of another kind beside its own", telemetry.FormJSON, `{"kind":"log","action":{},"log":{"level":"info","message":"hi"}}`, 1},
		{"a lone surrogate", telemetry.FormJSON, `{"kind":"log","log":{"level":"info","message":"cut \ud83d"}}`, 1},
		{"a failed request", telemetry.FormJSON, `{"kind":"network","network":{"method":"GET","url":"/x","status":0}}`, 1},
		{"nothing measured but CLS 0", telemetry.FormJSON, `{"kind":"vitals","vitals":{"cls":0}}`, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events, err := telemetry.Decode(tt.form, []byte(tt.body))
			if tt.want < 0 {
				if err == nil {
					t.Error("no error")
				}
				return
			}
			if err != nil || len(events) != tt.want {
				t.Fatalf("%d events, %v", len(events), err)
			}
			for _, e := range events {
				if e.App != telemetry.DefaultApp {
					t.Errorf("app %q", e.App)
				}
			}
		})
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
		{"status is text", `{"kind":"network","network":{"method":"GET","url":"/x","status":"200"}}`, 0, "network.status must be a whole number from 0 to 599"},
		{"status 600", `{"kind":"network","network":{"method":"GET","url":"/x","status":600}}`, 0, "network.status must be a whole number from 0 to 599"},
		{"status 200.5", `{"kind":"network","network":{"method":"GET","url":"/x","status":200.5}}`, 0, "network.status must be a whole number from 0 to 599"},
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
		{"app too long", `{"kind":"log","app":"` + strings.Repeat("a", 129) + `","log":{"level":"info","message":"hi"}}`, 0, "app must be at most 128 bytes"},
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
	_, err := telemetry.Decode(telemetry.FormNDJSON, []byte(good+"\n"+`{"kind":"x"}`))
	var field *telemetry.FieldError
	if !errors.As(err, &field) || field.Index != 1 {
		t.Errorf("NDJSON: %v", err)
	}
	for _, body := range []string{"", " \n", "\ufeff"} {
		if _, err := telemetry.Decode(telemetry.FormJSON, []byte(body)); err == nil {
			t.Errorf("%q is taken", body)
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
		t.Errorf("the message reads as %+v, %v", again, err)
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
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, form := range []telemetry.Form{telemetry.FormJSON, telemetry.FormNDJSON, telemetry.FormAny} {
			events, err := telemetry.Decode(form, body)
			if err != nil {
				if len(err.Error()) > 500+len(body) || events != nil {
					t.Fatalf("%d events and error %v", len(events), err)
				}
				continue
			}
			message, err := telemetry.Encode(events)
			if err != nil {
				t.Fatalf("what was accepted can't be written: %v", err)
			}
			again, err := telemetry.DecodeMessage(message)
			if err != nil || len(again) != len(events) {
				t.Fatalf("what was written can't be read: %v", err)
			}
		}
	})
}

func BenchmarkDecode100(b *testing.B) {
	line := `{"kind":"network","app":"web","session":"s1","time":"2026-01-28T14:30:00.000Z","url":"http://localhost:3000/cart","network":{"method":"GET","url":"/api/users","status":200,"duration_ms":12.5}}`
	body := []byte("[" + strings.Repeat(line+",", 99) + line + "]")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := telemetry.Decode(telemetry.FormJSON, body); err != nil {
			b.Fatal(err)
		}
	}
}
