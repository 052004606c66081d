package fold_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// raised returns a message with an alert of another monitoring system.
func raised(state, episode string) fold.Message {
	return fold.Message{External: []external.Alert{{
		Source: alert.SourceAlertmanager, Key: "a1", Episode: episode, State: state, Severity: alert.Error, Name: "Down", App: "shop",
	}}}
}

// TestExternalAlerts checks a message with a group of alerts, each of its own app. When the
// group is reported again, each alert is revised.
func TestExternalAlerts(t *testing.T) {
	s := newScript()
	long := strings.Repeat("x", 1000)
	group := slices.Concat(raised("firing", "1").External, raised("resolved", "1").External, raised("firing", "1").External)
	group[1].Key, group[1].App = "a2", ""
	group[2].Key, group[2].App = "a3", long
	for i := range 3 {
		s.at(time.Duration(i)*time.Minute, fold.Message{External: group})
	}
	if len(s.alerts) != 9 {
		t.Fatalf("%d alerts, want 9\n%s", len(s.alerts), s.titles())
	}
	for i, a := range s.alerts {
		revised := ""
		if i >= 3 {
			revised = s.alerts[i%3].ID
		}
		got := []any{a.Revises, a.Count, a.Timestamp, a.CorrelationID}
		if diff := cmp.Diff([]any{revised, 0, start.Add(time.Duration(i/3) * time.Minute), a.ID}, got); diff != "" {
			t.Errorf("alert %d: revises, count, timestamp, correlation id (-want +got):\n%s", i, diff)
		}
	}
	if got, want := [...]string{s.alerts[0].App, s.alerts[1].App}, [...]string{"shop", telemetry.DefaultApp}; got != want {
		t.Errorf("apps = %q, want %q", got, want)
	}
	if got := len(s.alerts[2].App); got > 400 {
		t.Errorf("name of the third app has %d bytes, want at most 400", got)
	}
	if got := s.fold.Stats().Apps; got != 0 {
		t.Errorf("%d apps are tracked, want 0: they sent no events", got)
	}
}

// TestExternalStorm checks that an alert that flaps is bounded, and that its last state is
// reported.
func TestExternalStorm(t *testing.T) {
	s := newScript()
	for i := range 25 {
		s.at(time.Duration(i)*10*time.Millisecond, raised("firing", fmt.Sprint(i)))
	}
	checkCounts := func(alerts int, suppressed uint64) {
		t.Helper()
		if got := s.fold.Stats().Suppressed; len(s.alerts) != alerts || got != suppressed {
			t.Fatalf("%d alerts, %d suppressed, want %d, %d", len(s.alerts), got, alerts, suppressed)
		}
	}
	checkCounts(10, 15)
	s.at(time.Minute, raised("firing", "24")) // reported again: the first time it was suppressed
	checkCounts(11, 15)
	if a := s.alerts[10]; a.Revises != "" || a.Count != 16 {
		t.Fatalf("revises, count = %q, %d, want none, 16", a.Revises, a.Count)
	}
	for i := range 25 {
		s.at(2*time.Minute+time.Duration(i)*10*time.Millisecond, raised("firing", "24"))
	}
	checkCounts(21, 30)
	for _, a := range s.alerts[11:] {
		if a.Revises != s.alerts[10].ID || a.Count != 0 {
			t.Errorf("revises, count = %q, %d, want %q, 0", a.Revises, a.Count, s.alerts[10].ID)
		}
	}
	s.at(3*time.Minute, raised("resolved", "24"))
	if last := s.alerts[21]; last.Revises != "" || last.Count != 0 || last.Severity != alert.Info {
		t.Errorf("the end: revises, count, severity = %q, %d, %q, want none, 0, %q", last.Revises, last.Count, last.Severity, alert.Info)
	}
}
