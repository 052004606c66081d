package mcpevents

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

func TestStartPosition(t *testing.T) {
	text := func(s string) *string { return &s }
	other := encodeCursor(bus.Position{Seq: 3, Created: created.Add(time.Nanosecond)})
	for _, c := range []struct {
		name      string
		cursor    *string
		state     bus.State
		want      uint64
		truncated bool
	}{
		{"no cursor: from now", nil, bus.State{First: 1, Last: 7}, 7, false},
		{"no cursor, an empty stream", nil, bus.State{First: 1}, 0, false},
		{"in the middle", cursor(3), bus.State{First: 1, Last: 7}, 3, false},
		{"at the end", cursor(7), bus.State{First: 1, Last: 7}, 7, false},
		{"before the first", cursor(0), bus.State{First: 1, Last: 7}, 0, false},
		{"right before the oldest alert", cursor(4), bus.State{First: 5, Last: 7}, 4, false},
		{"older than the oldest alert", cursor(3), bus.State{First: 5, Last: 7}, 4, true},
		{"all alerts were dropped", cursor(3), bus.State{First: 8, Last: 7}, 7, true},
		{"all alerts were read and dropped", cursor(7), bus.State{First: 8, Last: 7}, 7, false},
		{"a stream without a message", cursor(0), bus.State{}, 0, false},
		{"beyond the end: the newest were lost", cursor(9), bus.State{First: 5, Last: 7}, 7, true},
		{"of another stream", &other, bus.State{First: 5, Last: 7}, 4, true},
		{"another text", text("next"), bus.State{First: 5, Last: 7}, 4, true},
		{"empty", text(""), bus.State{First: 5, Last: 7}, 4, true},
		{"with line ends, which base64 ignores", text("AX0000\r\r\r\r\r\r\r0000000000"), bus.State{First: 5, Last: 7}, 4, true},
		{"of another version", text("Ag" + (*cursor(6))[2:]), bus.State{First: 5, Last: 7}, 4, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.state.Created = created
			got, truncated := startPosition(c.cursor, c.state)
			if got.Seq != c.want || truncated != c.truncated || !got.Created.Equal(created) {
				t.Errorf("startPosition = %+v, truncated %t, want sequence %d of the present stream, truncated %t", got, truncated, c.want, c.truncated)
			}
		})
	}
}

func TestCursorRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := bus.Position{
			Seq:     rapid.Uint64().Draw(t, "seq"),
			Created: time.Unix(0, rapid.Int64Range(0, math.MaxInt64).Draw(t, "created")),
		}
		got, ok := decodeCursor(encodeCursor(p))
		if !ok || got.Seq != p.Seq || !got.Created.Equal(p.Created) {
			t.Errorf("decodeCursor of the cursor of %+v = %+v, %t", p, got, ok)
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add(encodeCursor(position(7)))
	f.Add("AQAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := decodeCursor(text); ok && encodeCursor(p) != text {
			t.Errorf("decodeCursor(%q) = %+v, whose cursor is %q", text, p, encodeCursor(p))
		}
		state := bus.State{Created: created, First: 5, Last: 7}
		if p, _ := startPosition(&text, state); p.Seq < 4 || p.Seq > 7 || !p.Created.Equal(created) {
			t.Errorf("startPosition(%q) = %+v, want sequence 4 to 7 of the present stream", text, p)
		}
	})
}
