package fold_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// raised is what another monitoring system says of one alert.
func raised(state, episode string) fold.Message {
	return fold.Message{External: []external.Alert{{
		Source: alert.SourceAlertmanager, Key: "a1", Episode: episode, State: state, Severity: alert.Error, Name: "Down", App: "shop",
	}}}
}

// TestAlertsOfOthers: one message holds a whole group, each alert under its own
// app; the group reported again is a revision of each.
func TestAlertsOfOthers(t *testing.T) {
	s := newScript()
	long := strings.Repeat("x", 1000)
	group := slices.Concat(raised("firing", "1").External, raised("resolved", "1").External, raised("firing", "1").External)
	group[1].Key, group[1].App = "a2", ""
	group[2].Key, group[2].App = "a3", long
	for i := range 3 {
		s.at(time.Duration(i)*time.Minute, fold.Message{External: group})
	}
	if len(s.alerts) != 9 {
		t.Fatalf("%d alerts\n%s", len(s.alerts), s.titles())
	}
	for i, a := range s.alerts {
		revised := ""
		if i >= 3 {
			revised = s.alerts[i%3].ID
		}
		if a.Revises != revised || a.Count != 0 || a.Timestamp != start.Add(time.Duration(i/3)*time.Minute) || a.CorrelationID != a.ID {
			t.Errorf("%d: %+v", i, a)
		}
	}
	if s.alerts[0].App != "shop" || s.alerts[1].App != telemetry.DefaultApp || len(s.alerts[2].App) > 400 {
		t.Errorf("apps %s, %s, %s", s.alerts[0].App, s.alerts[1].App, s.alerts[2].App)
	}
	if s.fold.Stats().Apps != 0 {
		t.Error("apps are remembered of which there is nothing to remember")
	}
}

// TestStormOfOthers: an alert that flaps is bounded like every other, and how it
// is in the end is reported all the same.
func TestStormOfOthers(t *testing.T) {
	s := newScript()
	for i := range 25 {
		s.at(time.Duration(i)*10*time.Millisecond, raised("firing", fmt.Sprint(i)))
	}
	if len(s.alerts) != 10 || s.fold.Stats().Suppressed != 15 {
		t.Fatalf("%d alerts, %+v", len(s.alerts), s.fold.Stats())
	}
	s.at(time.Minute, raised("firing", "24")) // reported again: the first time it was suppressed
	if len(s.alerts) != 11 || s.alerts[10].Revises != "" || s.alerts[10].Count != 16 {
		t.Fatalf("%+v", s.alerts[len(s.alerts)-1])
	}
	for i := range 25 {
		s.at(2*time.Minute+time.Duration(i)*10*time.Millisecond, raised("firing", "24"))
	}
	if len(s.alerts) != 21 || s.fold.Stats().Suppressed != 30 {
		t.Fatalf("%d alerts, %+v", len(s.alerts), s.fold.Stats())
	}
	for _, a := range s.alerts[11:] {
		if a.Revises != s.alerts[10].ID || a.Count != 0 {
			t.Errorf("%+v", a)
		}
	}
	s.at(3*time.Minute, raised("resolved", "24"))
	if last := s.alerts[21]; last.Revises != "" || last.Count != 0 || last.Severity != alert.Info {
		t.Errorf("%+v", last)
	}
}
