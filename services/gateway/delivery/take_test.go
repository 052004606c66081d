package delivery

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func long(severity alert.Severity, n, text int) alert.Alert {
	id := fmt.Sprintf("%s-%02d", severity, n)
	return alert.Alert{
		ID: id, Severity: severity, Category: alert.Errors, Title: "title of " + id, Detail: strings.Repeat("d", text), App: "web", URL: strings.Repeat("u", text),
		Context: map[string]any{"message": strings.Repeat("m", text)}, Timestamp: time.Date(2026, 1, 28, 14, 30, n, 0, time.UTC),
		Source: alert.SourceErrors, DedupKey: id, CorrelationID: id, Seq: uint64(n + 1),
	}
}

// TestTakeBlock takes pending alerts in blocks: each is bounded, names what is still
// pending, and has the most severe and newest of what is left.
func TestTakeBlock(t *testing.T) {
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
		var taken []alert.Alert
		blocks := 0
		for ; ; blocks++ {
			block, err := takeBlock(b, 100)
			if err != nil {
				t.Fatal(err)
			}
			if block == "" {
				break
			}
			if len(block) > MaxBlock {
				t.Errorf("%s: got a block of %d bytes, want at most %d", tt.name, len(block), MaxBlock)
			}
			lines := strings.Split(block, "\n")
			var alerts []alert.Alert
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &alerts); err != nil {
				t.Fatalf("decode the alerts block: %v: %s", err, block)
			}
			if blocks == 0 && (alerts[0].ID != tt.first || tt.summary == "" && len(lines) > 2 || !strings.Contains(lines[1], tt.summary)) {
				t.Errorf("%s: got %s first and %q, want %s and %q", tt.name, alerts[0].ID, lines[1], tt.first, tt.summary)
			}
			taken = append(taken, alerts...)
			if want := fmt.Sprintf("%d more pending", n-len(taken)); len(taken) < n && !strings.Contains(lines[1], want) {
				t.Errorf("%s: got %q, want %q", tt.name, lines[1], want)
			}
		}
		if blocks != tt.blocks || len(taken) != n || b.Len() != 0 {
			t.Errorf("%s: got %d alerts in %d blocks, and %d left, want %d in %d", tt.name, len(taken), blocks, b.Len(), n, tt.blocks)
		}
		for i, a := range taken {
			before := taken[max(i-1, 0)]
			if a.Severity.Rank() > before.Severity.Rank() || a.Severity == before.Severity && a.Timestamp.After(before.Timestamp) {
				t.Errorf("%s: got %s after %s, want the most severe and newest first", tt.name, a.ID, before.ID)
			}
		}
	}
}

// BenchmarkTakeBlock measures taking a full inbox as the text of the block: of
// alerts as they usually are, and of such that have no room.
func BenchmarkTakeBlock(b *testing.B) {
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
				if block, err := takeBlock(box, 100); err != nil || block == "" {
					b.Fatal(err)
				}
			}
		})
	}
}
