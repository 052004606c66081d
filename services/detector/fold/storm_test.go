package fold_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// failing returns n failed requests of an app with different keys.
func failing(app string, from, n int) []telemetry.Event {
	all := make([]telemetry.Event, n)
	for i := range all {
		all[i] = requested("GET", "/e"+words(from+i), 500)
		all[i].App = app
	}
	return all
}

// words writes a number in letters, which a template keeps.
func words(n int) string {
	return strings.Map(func(r rune) rune { return r - '0' + 'a' }, strconv.Itoa(n))
}

// summed returns the numbers of alerts and summaries of an app and category, and the sum of
// their counts.
func (s *script) summed(app string, c alert.Category) (published, summaries, total int) {
	for _, a := range s.alerts {
		switch {
		case a.App != app || a.Category != c:
		case strings.HasSuffix(a.Title, " more different alerts"):
			summaries++
			total += a.Occurrences()
		default:
			published++
			total += a.Occurrences()
		}
	}
	return published, summaries, total
}

func TestStormOfDifferentAlerts(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(s *script)
		want string
	}{
		{"50 are published", func(s *script) { s.at(0, events(failing("web", 0, 50)...)) }, "50 published, 0 summaries, 50 in all"},
		{"the others are suppressed", func(s *script) { s.at(0, events(failing("web", 0, 60)...)) }, "50 published, 0 summaries, 50 in all"},
		{"the next alert brings the summary", func(s *script) {
			s.at(0, events(failing("web", 0, 60)...))
			s.at(200*time.Millisecond, events(failing("web", 60, 1)...))
		}, "51 published, 1 summaries, 61 in all"},
		{"any message brings the summary after 10 s", func(s *script) {
			refused := failing("web", 0, 60) // no spike, whose end would take the summary along
			for i := range refused {
				refused[i].Network.Status = 401
			}
			s.at(0, events(refused...))
			s.at(9999*time.Millisecond, fold.Message{})
			if len(s.alerts) != 50 {
				s.alerts = nil // too early
			}
			s.at(10*time.Second, fold.Message{})
			s.at(30*time.Second, fold.Message{})
		}, "50 published, 1 summaries, 60 in all"},
		{"each summary counts the alerts since the last", func(s *script) {
			s.at(0, events(failing("web", 0, 60)...))
			s.at(10*time.Second, fold.Message{})
			s.at(11*time.Second, events(failing("web", 100, 80)...))
			s.at(21*time.Second, fold.Message{})
		}, "100 published, 2 summaries, 140 in all"},
		{"repetitions are left to the storm limiter", func(s *script) {
			var all []telemetry.Event
			for range 60 {
				all = append(all, failing("web", 0, 1)...)
			}
			s.at(0, events(all...))
			s.at(10*time.Second, events(failing("web", 0, 1)...))
		}, "11 published, 0 summaries, 61 in all"},
		{"repetitions among different alerts", func(s *script) {
			var all []telemetry.Event
			for range 10 {
				all = append(all, failing("web", 0, 1)...)
			}
			s.at(0, events(append(append(all, failing("web", 100, 60)...), failing("web", 0, 3)...)...))
			s.at(10*time.Second, events(failing("web", 0, 1)...))
		}, "51 published, 1 summaries, 74 in all"},
		{"at most 10 summaries of an app in 10 s", func(s *script) {
			for i := range 100 {
				s.at(time.Duration(i)*90*time.Millisecond, events(failing("web", 100*i, 100)...))
			}
			s.at(30*time.Second, fold.Message{})
		}, "94 published, 11 summaries, 10000 in all"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript()
			tt.play(s)
			published, summaries, total := s.summed("web", alert.NetworkErrors)
			if got := fmt.Sprintf("%d published, %d summaries, %d in all", published, summaries, total); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if s.fold.HasSuppressed() && strings.Contains(tt.name, "10 s") {
				t.Error("HasSuppressed() = true, want false")
			}
		})
	}
}

// TestStormSummary checks the text and context of a summary.
func TestStormSummary(t *testing.T) {
	s := newScript()
	s.at(0, events(failing("web", 0, 50)...))
	blocked := telemetry.Event{Kind: telemetry.KindSecurity, App: "web", Security: &telemetry.Security{Type: "csp"}}
	s.at(0, events(requested("GET", "/forbidden", 403), logged(telemetry.LevelError, "boom"), blocked, requested("GET", "/a", 500)))
	s.alerts = nil
	s.at(10*time.Second, fold.Message{})
	if len(s.alerts) != 1 {
		t.Fatalf("got\n%s\nwant one summary", s.titles())
	}
	got := s.alerts[0]
	var titles []string
	for _, title := range got.Context["examples"].([]any) {
		titles = append(titles, title.(string))
	}
	if len(titles) != 4 || titles[1] != "New error: boom" || titles[3] != "Server error: GET /a → 500" {
		t.Errorf("examples = %q, want the 4 titles in order", titles)
	}
	want := alert.Alert{
		ID: got.ID, CorrelationID: got.ID, Timestamp: start.Add(10 * time.Second), App: "web", Count: 4,
		Severity: alert.Error, Category: alert.NetworkErrors, Source: "storm_limiter", DedupKey: "storm:web",
		Title:  "4 more different alerts",
		Detail: "Combined during a storm of alerts: 1 errors, 2 network_errors, 1 security. For example: " + strings.Join(titles, "; "),
		Context: map[string]any{
			"categories": map[string]any{"errors": 1, "network_errors": 2, "security": 1},
			"examples":   got.Context["examples"],
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if data, err := got.MarshalJSON(); err != nil || len(data) > 1500 {
		t.Errorf("%d bytes on the wire (error %v), want at most 1500", len(data), err)
	}
}

// TestStormLeavesOthersAlone checks that a storm suppresses neither other categories nor the
// alerts of other apps.
func TestStormLeavesOthersAlone(t *testing.T) {
	s := newScript()
	s.at(0, events(memory(95).Events[0], circuit("db", "open").Events[0]))
	s.at(0, raised("firing", "1"))
	s.alerts = nil
	s.at(0, events(failing("web", 0, 500)...))
	if found := s.titles(); !strings.Contains(found, "error anomaly: ") {
		t.Errorf("got\n%s\nwant an anomaly", found)
	}
	s.alerts = nil
	s.at(10*time.Millisecond, events(memory(10).Events[0], circuit("db", "closed").Events[0]))
	s.at(10*time.Millisecond, fold.Message{CI: &ci.Result{Status: ci.StatusFailure, Source: ci.SourceCustom, Name: "build", Ref: "main"}})
	s.at(10*time.Millisecond, raised("resolved", "1"))
	s.at(10*time.Millisecond, events(failing("shop", 0, 1)...))
	for _, want := range []string{
		"Memory is back to normal", "Circuit db is closed again", "CI failure: build on main",
		"Alert resolved: Down on shop", "Server error: GET /ea → 500",
	} {
		if !strings.Contains(s.titles(), want) {
			t.Errorf("got\n%s\nwant %q", s.titles(), want)
		}
	}
}

// TestStormOfManyApps checks that all apps share 500 alerts and 100 more each second evenly,
// and that every alert is counted.
func TestStormOfManyApps(t *testing.T) {
	const apps, each = 300, 50
	s := newScript()
	for round := range each {
		for i := range apps {
			s.at(time.Duration(round*100)*time.Millisecond, events(failing(fmt.Sprint("app", i), round, 1)...))
		}
	}
	s.at(20*time.Second, fold.Message{})
	all := 0
	for i := range apps {
		published, _, total := s.summed(fmt.Sprint("app", i), alert.NetworkErrors)
		if all += published; published < 1 || published > 6 || total != each {
			t.Errorf("app %d: %d alerts published, which count %d; want 1 to 6, and %d", i, published, total, each)
		}
	}
	if all > 500+100*5 {
		t.Errorf("%d alerts published in 5 s, want at most 1000", all)
	}
}

// TestStormReplay checks that the same messages give the same alerts with restarts within the
// storm.
func TestStormReplay(t *testing.T) {
	one, other := newScript(), newScript()
	for i := range 60 {
		at := time.Duration(i) * 250 * time.Millisecond
		m := events(append(failing("web", 20*i, 20), failing(fmt.Sprint("app", i%7), 9*i, 9)...)...)
		one.at(at, m)
		other.at(at, m)
		if i%5 == 4 {
			other.restart(t, fold.Config{})
		}
	}
	if diff := cmp.Diff(one.alerts, other.alerts); diff != "" {
		t.Errorf("alerts (-without +with restarts):\n%s", diff)
	}
	ids := map[string]bool{}
	for _, a := range one.alerts {
		if ids[a.ID] {
			t.Errorf("%q has the id %s of another alert, want its own", a.Title, a.ID)
		}
		ids[a.ID] = true
	}
}
