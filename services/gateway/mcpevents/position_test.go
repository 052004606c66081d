package mcpevents

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBegin(t *testing.T) {
	text := func(s string) *string { return &s }
	other := Position{Seq: 3, Created: born.Add(time.Nanosecond)}.Cursor()
	for _, c := range []struct {
		name      string
		cursor    *string
		state     State
		want      uint64
		truncated bool
	}{
		{"no cursor: from now", nil, State{First: 1, Last: 7}, 7, false},
		{"no cursor, nothing there", nil, State{First: 1}, 0, false},
		{"in the middle", cursor(3), State{First: 1, Last: 7}, 3, false},
		{"at the end", cursor(7), State{First: 1, Last: 7}, 7, false},
		{"before the first", cursor(0), State{First: 1, Last: 7}, 0, false},
		{"right before the oldest", cursor(4), State{First: 5, Last: 7}, 4, false},
		{"older than what there is", cursor(3), State{First: 5, Last: 7}, 4, true},
		{"all of it has gone", cursor(3), State{First: 8, Last: 7}, 7, true},
		{"all was read, and has gone", cursor(7), State{First: 8, Last: 7}, 7, false},
		{"a stream that was never written", cursor(0), State{}, 0, false},
		{"beyond the end: the newest were lost", cursor(9), State{First: 5, Last: 7}, 7, true},
		{"of another stream", &other, State{First: 5, Last: 7}, 4, true},
		{"none of ours", text("next"), State{First: 5, Last: 7}, 4, true},
		{"empty", text(""), State{First: 5, Last: 7}, 4, true},
		{"with line ends, which base64 passes over", text("AX0000\r\r\r\r\r\r\r0000000000"), State{First: 5, Last: 7}, 4, true},
		{"of another version", text("Ag" + (*cursor(6))[2:]), State{First: 5, Last: 7}, 4, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.state.Created = born
			got, truncated := begin(c.cursor, c.state)
			if got.Seq != c.want || truncated != c.truncated || !got.Created.Equal(born) {
				t.Errorf("%+v, truncated %t", got, truncated)
			}
		})
	}
}

func TestCursorsHoldEveryPosition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Position{
			Seq:     rapid.Uint64().Draw(t, "seq"),
			Created: time.Unix(0, rapid.Int64Range(0, math.MaxInt64).Draw(t, "created")),
		}
		got, ok := parseCursor(p.Cursor())
		if !ok || got.Seq != p.Seq || !got.Created.Equal(p.Created) {
			t.Errorf("%+v came back as %+v, %t", p, got, ok)
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add(at(7).Cursor())
	f.Add("AQAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := parseCursor(text); ok && p.Cursor() != text {
			t.Errorf("%q is read as %+v, which is %q", text, p, p.Cursor())
		}
		state := State{Created: born, First: 5, Last: 7}
		if p, _ := begin(&text, state); p.Seq < 4 || p.Seq > 7 || !p.Created.Equal(born) {
			t.Errorf("%q begins at %+v", text, p)
		}
	})
}
