package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// TestFirstBlockFits encodes pages of any size: the block is bounded, and has how many
// entries are left out and where the list continues.
func TestFirstBlockFits(t *testing.T) {
	for _, tt := range []struct {
		name           string
		n, text, older int
		shown, leftOut int
	}{
		{"nothing", 0, 0, 0, 0, 0},
		{"all", 50, 100, 0, 50, 0},
		{"all, and there are older ones", 50, 100, 7, 50, 7},
		{"all, with long fields cut", 50, 9000, 0, 50, 0},
		{"not all", 200, 9000, 0, 138, 62},
		{"not all, and there are many older ones", 200, 9000, 999, 138, 1000},
		{"one is too long by itself", 1, 900_000, 0, 1, 0},
	} {
		q := Query{What: Logs, Limit: 200}.Since(time.Minute, time.Now())
		p := page{older: tt.older, incomplete: strings.Repeat("why ", 1000), hidden: 3}
		for i := range tt.n {
			p.entries = append(p.entries, entry{map[string]string{"text": strings.Repeat("x", tt.text), "more": strings.Repeat("y", tt.text)}, entryPosition{Seq: uint64(500 - i)}})
		}
		text, err := q.block(p)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			What      string
			Logs      []json.RawMessage
			Truncated truncated
			Hidden    int `json:"hidden_total"`
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: decode the block: %v: %s", tt.name, err, text)
		}
		if len(text) > MaxBlock || len(got.Logs) != tt.shown || got.Truncated.LeftOut != tt.leftOut || got.What != "logs" || got.Hidden != 3 {
			t.Errorf("%s: got %d entries and %d left out in %d bytes, want %d and %d", tt.name, len(got.Logs), got.Truncated.LeftOut, len(text), tt.shown, tt.leftOut)
		}
		if tt.leftOut == 0 {
			continue
		}
		c, err := ParseCursor(got.Truncated.Before, Logs)
		if want := uint64(501 - tt.shown); err != nil || c.Seq != want || c.Since != q.From.UnixMilli() {
			t.Errorf("%s: got %+v, %v, want sequence %d", tt.name, c, err, want)
		}
	}
}

// TestStatusFits: limit and bytes bound the apps, and every app is on one page, also
// where others come.
func TestStatusFits(t *testing.T) {
	var apps []appStatus
	add := func(name string) {
		apps = append(apps, appStatus{AppStatus: query.AppStatus{App: name, Senders: []string{strings.Repeat("s", 200)}}})
	}
	for i := range 300 {
		add(fmt.Sprintf("app%03d%s", i, strings.Repeat("n", 200)))
	}
	for _, limit := range []int{7, 50, 200} {
		q := Query{What: Status, Limit: limit}
		seen := map[string]int{}
		pages := 0
		for ; ; pages++ {
			text, err := q.statusBlock(statusReply{What: Status, Apps: apps, Error: strings.Repeat("e", 500), Client: `"apps":[]`})
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Apps      []struct{ App string }
				Truncated truncated
			}
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("decode the block: %v: %s", err, text)
			}
			if len(text) > MaxBlock || len(got.Apps) > limit || len(got.Apps) == 0 {
				t.Fatalf("got %d apps in %d bytes, want at most %d", len(got.Apps), len(text), limit)
			}
			for _, app := range got.Apps {
				seen[app.App[:6]]++
			}
			if got.Truncated.Before == "" {
				break
			}
			if q.Before, err = ParseCursor(got.Truncated.Before, Status); err != nil {
				t.Fatal(err)
			}
			if pages == 0 {
				add("aaa came meanwhile")
			}
		}
		for i := range 300 {
			if name := fmt.Sprintf("app%03d", i); seen[name] != 1 {
				t.Errorf("limit %d: got %s %d times, want it once", limit, name, seen[name])
			}
		}
		apps = apps[:300]
	}
	q := Query{What: Status, Limit: 50, App: apps[7].App}
	if text, err := q.statusBlock(statusReply{Apps: apps}); err != nil || strings.Count(text, `"senders"`) != 1 || strings.Contains(text, "truncated") {
		t.Errorf("got %s, %v, want one app", text, err)
	}
}

func TestCursor(t *testing.T) {
	for _, c := range []Cursor{
		{What: Logs, Since: 5, entryPosition: entryPosition{Seq: 7, Index: 3}},
		{What: Status, entryPosition: entryPosition{Name: "x\x00\"\u2028"}},
		{What: Kubernetes, Newest: 9, entryPosition: entryPosition{Seq: 1}},
	} {
		if got, err := ParseCursor(c.String(), c.What); err != nil || got != c {
			t.Errorf("got %+v, %v, want %+v", got, err, c)
		}
	}
	for _, text := range []string{"x", "!", "e30", Cursor{What: Logs, entryPosition: entryPosition{Seq: 7}}.String(), strings.Repeat("A", 100)} {
		_, err := ParseCursor(text, CI)
		const want = `before must be the value of truncated.before in an earlier answer to observe {"what":"ci"}`
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// FuzzCursor: a text that is accepted as a cursor is encoded as an equal cursor again.
func FuzzCursor(f *testing.F) {
	f.Add(Cursor{What: Logs, Since: 5, Newest: 1, entryPosition: entryPosition{Seq: 7, Index: 3, Name: "n"}}.String())
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCursor(text, Logs)
		if err != nil {
			return
		}
		if again, err := ParseCursor(c.String(), Logs); err != nil || again != c {
			t.Errorf("ParseCursor = %+v, %v, want %+v", again, err, c)
		}
	})
}

// TestShortfall: what was read before the bus stopped answering is kept, with a note.
func TestShortfall(t *testing.T) {
	for _, tt := range []struct {
		err   error
		read  int
		notes string
		none  error
	}{
		{nil, 0, "", nil},
		{nil, 7, "", nil},
		{busclient.ErrNoAnswer, 0, "", busclient.ErrNoAnswer},
		{busclient.ErrUnreachable, 0, "", busclient.ErrUnreachable},
		{busclient.ErrNoAnswer, 500, "only the newest 500 messages could be read within 3s: ask for less with since_seconds", nil},
		{errors.New("no\x1b"), 500, "only the newest 500 messages could be read: no␛", nil},
	} {
		notes, none := incompleteNotes(tt.err, tt.read)
		if got := strings.Join(notes, "; "); got != tt.notes {
			t.Errorf("notes of %v after %d = %q, want %q", tt.err, tt.read, got, tt.notes)
		}
		if !errors.Is(none, tt.none) {
			t.Errorf("error of %v after %d = %v, want %v", tt.err, tt.read, none, tt.none)
		}
	}
}
