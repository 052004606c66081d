package alert_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

func summary(count int, at time.Time, s alert.Storm) alert.Alert {
	return s.Fill(alert.Alert{ID: "s", App: "web", Severity: alert.Error, DedupKey: "storm:web", Timestamp: at, Count: count})
}

// wired is an alert as a reader of the bus has it.
func wired(t *testing.T, a alert.Alert) (b alert.Alert) {
	t.Helper()
	data, err := json.Marshal(a)
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMergeStorms merges the summaries of one storm: each counts what came since the
// last, so the reader of both in one line must see what both say.
func TestMergeStorms(t *testing.T) {
	at := time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)
	first := summary(150, at, alert.Storm{
		Categories: map[alert.Category]int{alert.NetworkErrors: 140, alert.Errors: 2},
		Examples:   []string{"a", "b", "c", "d"},
	})
	second := summary(0, at.Add(10*time.Second), alert.Storm{
		Categories: map[alert.Category]int{alert.Errors: 1, alert.Security: 3}, Examples: []string{"b", "e", "f"},
	})
	for name, pair := range map[string][2]alert.Alert{
		"as made": {first, second}, "as read": {wired(t, first), wired(t, second)}, "out of order": {first, wired(t, second)},
	} {
		got := wired(t, alert.Merge(pair[0], pair[1]))
		want := wired(t, alert.Alert{
			ID: "s", App: "web", Severity: alert.Error, Category: alert.NetworkErrors, Source: alert.SourceStorm, DedupKey: "storm:web",
			Title: "146 more different alerts", Timestamp: at.Add(10 * time.Second), Count: 151,
			Detail:  "Combined during a storm of alerts: 3 errors, 140 network_errors, 3 security. For example: a; b; c; d; e",
			Context: map[string]any{"categories": map[string]any{"errors": 3, "network_errors": 140, "security": 3}, "examples": []any{"a", "b", "c", "d", "e"}},
		})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	damaged := second
	damaged.Context = map[string]any{"categories": "many"}
	if got := alert.Merge(first, damaged); got.Title != second.Title || got.Count != 151 {
		t.Errorf("with one that has no counts: got %+v, want the later one", got)
	}
}
