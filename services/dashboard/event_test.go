package dashboard

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// FuzzEvent: whatever somebody has put into the stream, a reader gets one event of
// two lines, whose data is an alert, or nothing.
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
		if !ok || !ok2 || bytes.ContainsAny(line, "\r\n") || !json.Valid(line) || !bytes.Equal(line, e.Data) {
			t.Errorf("%q", e.Frame)
		}
		if utf8.Valid(data) && bytes.ContainsAny(line, "\u202e\u2066\u200b") {
			t.Errorf("an invisible character is in %q", line)
		}
	})
}
