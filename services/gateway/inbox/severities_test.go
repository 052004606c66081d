package inbox_test

import (
	"fmt"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestSeverities(t *testing.T) {
	revision := func(severity alert.Severity) alert.Alert {
		a := entryAlert("r", "a", severity)
		a.Revises = "a1"
		return a
	}
	end := func(id string, also ...string) alert.Alert {
		a := entryAlert("e", "a", alert.Info)
		a.Resolves, a.AlsoResolves = id, also
		return a
	}
	for _, tt := range []struct {
		name   string
		before []alert.Alert
		a      alert.Alert
		raises bool
		rank   int
	}{
		{"no revision", nil, entryAlert("a1", "a", alert.Error), false, 3},
		{"unknown", nil, revision(alert.Error), false, 3},
		{"higher", []alert.Alert{entryAlert("a1", "a", alert.Info)}, revision(alert.Error), true, 3},
		{"the same", []alert.Alert{entryAlert("a1", "a", alert.Warning)}, revision(alert.Warning), false, 2},
		{"lower", []alert.Alert{entryAlert("a1", "a", alert.Error)}, revision(alert.Info), false, 1},
		{"higher than the first, not than a revision", []alert.Alert{entryAlert("a1", "a", alert.Info), revision(alert.Error)}, revision(alert.Error), false, 3},
		{"the resolution of a warning", []alert.Alert{entryAlert("a1", "a", alert.Warning)}, end("a1"), false, 2},
		{"the resolution of an alert that became an error", []alert.Alert{entryAlert("a1", "a", alert.Info), revision(alert.Error)}, end("a1"), false, 3},
		{"the resolution of several", []alert.Alert{entryAlert("a1", "a", alert.Info), entryAlert("b1", "b", alert.Warning)}, end("a1", "b1"), false, 2},
		{"the resolution of an unknown alert", []alert.Alert{entryAlert("a1", "a", alert.Info)}, end("a1", "b1"), false, 3},
	} {
		var s inbox.Severities
		for _, a := range tt.before {
			s.Record(a)
		}
		if raises, rank := s.Raises(tt.a), s.RankOfFinding(tt.a); raises != tt.raises || rank != tt.rank {
			t.Errorf("%s: got raises %t and rank %d, want %t and %d", tt.name, raises, rank, tt.raises, tt.rank)
		}
	}
}

// TestSeveritiesAreBounded records more alerts than are remembered: the oldest are
// forgotten.
func TestSeveritiesAreBounded(t *testing.T) {
	var s inbox.Severities
	for i := range 700 {
		s.Record(entryAlert(fmt.Sprint(i), "a", alert.Info))
	}
	for id, want := range map[string]bool{"0": false, "199": false, "200": true, "699": true} {
		a := entryAlert("r", "a", alert.Error)
		a.Revises = id
		if got := s.Raises(a); got != want {
			t.Errorf("%s: got known %t, want %t", id, got, want)
		}
	}
}

func TestListDropLeast(t *testing.T) {
	rank := func(a alert.Alert) int { return a.Severity.Rank() }
	for _, tt := range []struct {
		severities []alert.Severity
		want       string
	}{
		{nil, "[]"},
		{[]alert.Severity{alert.Info}, "[]"},
		{[]alert.Severity{alert.Error, alert.Warning, alert.Info, alert.Info}, "[a0*0 a1*0 a3*0]"},
		{[]alert.Severity{alert.Error, alert.Error}, "[a1*0]"},
		{[]alert.Severity{alert.Warning, alert.Error, alert.Warning}, "[a1*0 a2*0]"},
	} {
		var l inbox.List
		for i, severity := range tt.severities {
			l.Add(entryAlert(fmt.Sprint("a", i), fmt.Sprint(i), severity))
		}
		l.DropLowest(rank)
		if got := fmt.Sprint(ids(&l)); got != tt.want {
			t.Errorf("DropLeast of %v: got %s, want %s", tt.severities, got, tt.want)
		}
	}
}
