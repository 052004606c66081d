package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
)

func long(severity alert.Severity, n, text int) alert.Alert {
	id := fmt.Sprintf("%s-%02d", severity, n)
	return alert.Alert{
		ID: id, Severity: severity, Category: alert.Errors, Title: "title of " + id, Detail: strings.Repeat("d", text), App: "web", URL: strings.Repeat("u", text),
		Context: map[string]any{"message": strings.Repeat("m", text)}, Timestamp: time.Date(2026, 1, 28, 14, 30, n, 0, time.UTC),
		Source: alert.SourceErrors, DedupKey: id, CorrelationID: id, Seq: uint64(n + 1),
	}
}

// TestDrainBlock takes pending alerts in blocks: each is bounded, names what is still
// pending, and has the most severe and newest of what is left.
func TestDrainBlock(t *testing.T) {
	for _, tt := range []struct {
		name                    string
		errors, warnings, infos int
		text, blocks            int
		first, summary          string
	}{
		{"nothing", 0, 0, 0, 0, 0, "", ""},
		{"a few", 1, 1, 1, 100, 1, "error-00", ""},
		{"a summary from four on", 2, 2, 0, 100, 1, "error-01", "4 alerts: 4 errors"},
		{"long fields are cut first", 2, 20, 0, 2000, 1, "error-01", "22 alerts: 22 errors"},
		{"more than has room", 10, 30, 10, 2000, 2, "error-09", "more pending: call observe again"},
		{"one that is too long by itself", 1, 0, 0, 100_000, 1, "error-00", ""},
		{"evicted", 0, 60, 0, 1, 1, "warning-59", "10 evicted"},
		{"both", 0, 60, 0, 2000, 2, "warning-59", "more pending: call observe again; 10 evicted"},
	} {
		b := inbox.New()
		n := 0
		for severity, times := range map[alert.Severity]int{alert.Error: tt.errors, alert.Warning: tt.warnings, alert.Info: tt.infos} {
			for i := range times {
				b.Offer(long(severity, i, tt.text))
				n++
			}
		}
		n = min(n, inbox.Capacity)
		var told []alert.Alert
		blocks := 0
		for ; ; blocks++ {
			block, err := drainBlock(b, 100)
			if err != nil {
				t.Fatal(err)
			}
			if block == "" {
				break
			}
			if len(block) > maxAlertsBlock {
				t.Errorf("%s: got a block of %d bytes, want at most %d", tt.name, len(block), maxAlertsBlock)
			}
			lines := strings.Split(block, "\n")
			var alerts []alert.Alert
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &alerts); err != nil {
				t.Fatalf("%v: %s", err, block)
			}
			if blocks == 0 && (alerts[0].ID != tt.first || tt.summary == "" && len(lines) > 2 || !strings.Contains(lines[1], tt.summary)) {
				t.Errorf("%s: got %s first and %q, want %s and %q", tt.name, alerts[0].ID, lines[1], tt.first, tt.summary)
			}
			told = append(told, alerts...)
			if want := fmt.Sprintf("%d more pending", n-len(told)); len(told) < n && !strings.Contains(lines[1], want) {
				t.Errorf("%s: got %q, want %q", tt.name, lines[1], want)
			}
		}
		if blocks != tt.blocks || len(told) != n || b.Len() != 0 {
			t.Errorf("%s: got %d alerts in %d blocks, and %d left, want %d in %d", tt.name, len(told), blocks, b.Len(), n, tt.blocks)
		}
		for i, a := range told {
			before := told[max(i-1, 0)]
			if a.Severity.Rank() > before.Severity.Rank() || a.Severity == before.Severity && a.Timestamp.After(before.Timestamp) {
				t.Errorf("%s: got %s after %s, want the most severe and newest first", tt.name, a.ID, before.ID)
			}
		}
	}
}

// TestFirstBlockFits writes pages of any size: the block is bounded, and says how many
// entries are left out and where to read on.
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
		l := look{what: "logs", limit: 200}.begin(time.Now())
		p := page{older: tt.older, incomplete: strings.Repeat("why ", 1000), hidden: 3}
		for i := range tt.n {
			p.entries = append(p.entries, entry{map[string]string{"text": strings.Repeat("x", tt.text), "more": strings.Repeat("y", tt.text)}, position{Seq: uint64(500 - i)}})
		}
		text, err := l.block(p)
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
			t.Fatalf("%s: %v: %s", tt.name, err, text)
		}
		if len(text) > maxFirstBlock || len(got.Logs) != tt.shown || got.Truncated.LeftOut != tt.leftOut || got.What != "logs" || got.Hidden != 3 {
			t.Errorf("%s: got %d entries and %d left out in %d bytes, want %d and %d", tt.name, len(got.Logs), got.Truncated.LeftOut, len(text), tt.shown, tt.leftOut)
		}
		if tt.leftOut == 0 {
			continue
		}
		c, err := parseCursor(got.Truncated.Before, "logs")
		if want := uint64(501 - tt.shown); err != nil || c.Seq != want || c.Since != l.from.UnixMilli() {
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
		l := look{what: whatStatus, limit: limit}
		seen := map[string]int{}
		pages := 0
		for ; ; pages++ {
			text, err := l.statusBlock(statusReply{What: whatStatus, Apps: apps, Error: strings.Repeat("e", 500), Client: `"apps":[]`})
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Apps      []struct{ App string }
				Truncated truncated
			}
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if len(text) > maxFirstBlock || len(got.Apps) > limit || len(got.Apps) == 0 {
				t.Fatalf("got %d apps in %d bytes, want at most %d", len(got.Apps), len(text), limit)
			}
			for _, app := range got.Apps {
				seen[app.App[:6]]++
			}
			if got.Truncated.Before == "" {
				break
			}
			if l.before, err = parseCursor(got.Truncated.Before, whatStatus); err != nil {
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
	l := look{what: whatStatus, limit: 50, app: apps[7].App}
	if text, err := l.statusBlock(statusReply{Apps: apps}); err != nil || strings.Count(text, `"senders"`) != 1 || strings.Contains(text, "truncated") {
		t.Errorf("got %s, %v, want one app", text, err)
	}
}

func TestCursor(t *testing.T) {
	for _, c := range []pageCursor{
		{What: "logs", Since: 5, position: position{Seq: 7, Index: 3}},
		{What: "status", position: position{Name: "x\x00\"\u2028"}},
		{What: "kubernetes", Top: 9, position: position{Seq: 1}},
	} {
		if got, err := parseCursor(c.String(), c.What); err != nil || got != c {
			t.Errorf("got %+v, %v, want %+v", got, err, c)
		}
	}
	for _, text := range []string{"x", "!", "e30", pageCursor{What: "logs", position: position{Seq: 7}}.String(), strings.Repeat("A", 100)} {
		_, err := readLook(json.RawMessage(fmt.Sprintf(`{"what":"ci","before":%q}`, text)))
		const want = `before must be the value of truncated.before in an earlier answer to observe {"what":"ci"}`
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// FuzzCursor: whatever is taken for a cursor is one, and is written as such again.
func FuzzCursor(f *testing.F) {
	f.Add(pageCursor{What: "logs", Since: 5, Top: 1, position: position{Seq: 7, Index: 3, Name: "n"}}.String())
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCursor(text, "logs")
		if err != nil {
			return
		}
		if again, err := parseCursor(c.String(), "logs"); err != nil || again != c {
			t.Errorf("got %+v, %v of %+v", again, err, c)
		}
	})
}

// BenchmarkDrainBlock measures the drain of a full inbox to the text of the block: of
// alerts as they usually are, and of such that have no room.
func BenchmarkDrainBlock(b *testing.B) {
	for name, text := range map[string]int{"usual": 60, "long": 2000} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				box := inbox.New()
				for i := range inbox.Capacity {
					box.Offer(long(alert.Error, i, text))
				}
				b.StartTimer()
				if block, err := drainBlock(box, 100); err != nil || block == "" {
					b.Fatal(err)
				}
			}
		})
	}
}
