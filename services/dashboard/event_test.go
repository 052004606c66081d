package dashboard

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// FuzzEvent: a message of any content becomes one event of two lines, whose data is an alert,
// or an error.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"id":"a","severity":"error","category":"ci","title":"x","timestamp":"2026-01-28T14:30:00.000Z","context":{"a":[1,"\u202e"]}}`))
	f.Add([]byte("{\r\n\"severity\":\"info\",\n\"timestamp\":\"2026-01-28T14:30:00Z\",\"x\":\"id: 9\\n\\n\"}"))
	f.Add([]byte("\n\ndata: x"))
	mask := redact.New()
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := newEvent(bus.Message{Seq: 7, Data: data}, mask)
		if err != nil {
			return
		}
		rest, ok := bytes.CutPrefix(e.Frame, []byte("id: 7\ndata: "))
		line, ok2 := bytes.CutSuffix(rest, []byte("\n\n"))
		if !ok || !ok2 {
			t.Errorf("frame = %q, want the lines id and data", e.Frame)
		}
		if bytes.ContainsAny(line, "\r\n") || !json.Valid(line) {
			t.Errorf("data line = %q, want JSON without line breaks", line)
		}
		if diff := cmp.Diff(string(line), string(e.Data)); diff != "" {
			t.Errorf("Data (-frame +Data):\n%s", diff)
		}
		if utf8.Valid(data) && bytes.ContainsAny(line, "\u202e\u2066\u200b") {
			t.Errorf("data line = %q, want no invisible character", line)
		}
	})
}
