package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestLifecycle(t *testing.T) {
	one := func(id string, change func(*alert.Alert)) alert.Alert {
		a := alert.Alert{ID: id, App: "web", DedupKey: "k", Severity: alert.Error, Timestamp: time.Unix(int64(id[0]), 0)}
		if change != nil {
			change(&a)
		}
		return a
	}
	for _, tt := range []struct {
		name  string
		first alert.Alert
		later []alert.Alert
		want  string // alert, revisions, repetitions, resolved by; which of the later ones belong to it
	}{
		{"alone", one("a", nil), nil, "a 0 0  []"},
		{"others", one("a", nil), []alert.Alert{
			one("b", func(a *alert.Alert) { a.App = "shop" }), one("c", func(a *alert.Alert) { a.DedupKey = "x" }),
			one("d", func(a *alert.Alert) { a.Revises = "b" }), one("e", func(a *alert.Alert) { a.DedupKey, a.Resolves = "x", "c" }),
		}, "a 0 0  [false false false false]"},
		{"published twice", one("a", nil), []alert.Alert{one("a", nil)}, "a 0 0  [false]"},
		{"repeated", one("a", nil), []alert.Alert{one("b", nil), one("c", func(a *alert.Alert) { a.Count = 5 })}, "a 0 6  [true true]"},
		{"revised", one("a", nil), []alert.Alert{one("b", func(a *alert.Alert) { a.Revises = "a" }), one("c", func(a *alert.Alert) { a.Revises = "a" })}, "c 2 0  [true true]"},
		{"a revision, revised again", one("b", func(a *alert.Alert) { a.Revises = "a" }), []alert.Alert{one("c", func(a *alert.Alert) { a.Revises = "a" })}, "c 1 0  [true]"},
		{"resolved", one("a", nil), []alert.Alert{one("b", func(a *alert.Alert) { a.Resolves = "a" })}, "a 0 0 b [true]"},
		{"resolved under another key", one("a", nil), []alert.Alert{one("b", func(a *alert.Alert) { a.DedupKey, a.Resolves = "normal", "a" })}, "a 0 0 b [true]"},
		{"resolved together with another", one("a", nil), []alert.Alert{
			one("b", func(a *alert.Alert) { a.DedupKey, a.Resolves, a.AlsoResolves = "x", "y", []string{"a"} }),
		}, "a 0 0 b [true]"},
		{"its repetition is resolved", one("a", nil), []alert.Alert{one("b", nil), one("c", func(a *alert.Alert) { a.Resolves = "b" })}, "a 0 1 c [true true]"},
		{"it came back", one("a", nil), []alert.Alert{one("b", func(a *alert.Alert) { a.Resolves = "a" }), one("c", nil)}, "a 0 1  [true true]"},
		{"a resolution", one("b", func(a *alert.Alert) { a.Resolves = "a" }), []alert.Alert{one("c", nil)}, "b 0 0  [false]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := NewLifecycle(tt.first)
			parts := []bool{}
			for _, a := range tt.later {
				parts = append(parts, l.Add(a))
			}
			if got := fmt.Sprintf("%s %d %d %s %v", l.Alert.ID, l.Revisions, l.Repetitions, l.ResolvedBy, parts); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestLifecycleLastSeen: the end of an investigation, which has its alert's time, comes after a
// repetition.
func TestLifecycleLastSeen(t *testing.T) {
	first := alert.Alert{ID: "a", App: "web", DedupKey: "k", Severity: alert.Error, Timestamp: time.Unix(1000, 0)}
	again := first
	again.ID, again.Timestamp = "b", time.Unix(2000, 0)
	ended := alert.RevisionFor(first, alert.Investigation{SessionID: "s", Status: alert.InvestigationFailed})
	l := NewLifecycle(first)
	for _, a := range []alert.Alert{again, ended} {
		if !l.Add(a) {
			t.Errorf("%s does not belong to the lifecycle, want that it does", a.ID)
		}
	}
	if want := alert.FormatTime(again.Timestamp); l.LastSeen != want {
		t.Errorf("last seen %s, want %s, when it was repeated", l.LastSeen, want)
	}
}

// TestLifecycleKeepsInvestigation: a revision without an investigation keeps the one before.
func TestLifecycleKeepsInvestigation(t *testing.T) {
	first := alert.Alert{ID: "a", App: "web", DedupKey: "k", Severity: alert.Error}
	count := first
	count.ID, count.Revises = "b", "a"
	started := alert.RevisionFor(first, alert.Investigation{SessionID: "s", Status: alert.InvestigationInProgress})
	ended := alert.RevisionFor(first, alert.Investigation{SessionID: "s", Status: alert.InvestigationFailed})
	for _, tt := range []struct {
		later []alert.Alert
		want  alert.InvestigationStatus
	}{
		{[]alert.Alert{count}, ""},
		{[]alert.Alert{started, count}, alert.InvestigationInProgress},
		{[]alert.Alert{started, count, ended, count}, alert.InvestigationFailed},
	} {
		l := NewLifecycle(first)
		for _, a := range tt.later {
			l.Add(a)
		}
		var got alert.InvestigationStatus
		if l.Alert.Investigation != nil {
			got = l.Alert.Investigation.Status
		}
		if got != tt.want {
			t.Errorf("after %d revisions: status %q, want %q", len(tt.later), got, tt.want)
		}
	}
}
