package spike_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/services/detector/spike"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// openIncidents are the open incidents of a timeline.
type openIncidents map[uint64]rule.Incident

func (o openIncidents) Find(key uint64) (rule.Incident, bool) {
	i, ok := o[key]
	return i, ok
}

func (o openIncidents) Any() bool { return len(o) > 0 }

// timeline plays events to a rule, and publishes its findings as package fold does.
type timeline struct {
	t        *testing.T
	rule     *spike.Rule
	app      *rule.App
	open     openIncidents
	young    bool
	suppress bool // whether alerts are suppressed
	restarts bool // whether the state is restored before each event
	got      []string
	alerts   []alert.Alert
}

func newTimeline(t *testing.T, choice ruleset.Anomaly, young, restarts bool) *timeline {
	s := &timeline{t: t, open: openIncidents{}, young: young, restarts: restarts}
	s.app = &rule.App{Name: "web", Choice: ruleset.Set{Anomaly: choice}, Incidents: s.open, Leading: func(time.Time) (string, int64) { return "0123456789abcdef", 7 }}
	s.rule = s.newRule()
	s.rule.Switch(young, at(0))
	return s
}

func (s *timeline) newRule() *spike.Rule { return spike.NewRule(s.app).(*spike.Rule) }

// observe lets time pass up to a time in milliseconds and observes an event.
func (s *timeline) observe(ms int, e telemetry.Event) {
	if s.restarts {
		restored := s.newRule()
		snapshottest.Copy(s.t, s.rule, restored)
		s.rule = restored
	}
	s.tick(ms)
	for _, f := range s.rule.Observe(&rule.Event{Event: &e, App: "web", Young: s.young}, at(ms)) {
		if s.suppress {
			continue
		}
		id := s.publish(ms, f.Alert)
		if f.Opens != nil {
			s.open[f.Opens.Key] = rule.Incident{Key: f.Opens.Key, ID: id, Title: f.Alert.Title}
		}
	}
}

// tick lets time pass for the open incidents.
func (s *timeline) tick(ms int) {
	for key, i := range s.open {
		end, _ := s.rule.Tick(i, at(ms))
		for _, f := range end {
			s.publish(ms, f.Alert)
			delete(s.open, key)
			s.rule.Switch(s.young, at(ms))
		}
	}
}

func (s *timeline) publish(ms int, a alert.Alert) (id string) {
	line := fmt.Sprintf("%d s: %s", ms/1000, a.Title)
	if a.Resolves != "" {
		line += " (resolves " + a.Resolves + ")"
	}
	s.got, s.alerts = append(s.got, line), append(s.alerts, a)
	return fmt.Sprint("alert ", len(s.got))
}

// errors observes n logs of level error at a time.
func (s *timeline) errors(ms, n int) {
	for range n {
		s.observe(ms, telemetry.Event{Kind: telemetry.KindLog, Log: &telemetry.Log{Level: telemetry.LevelError, Message: "boom"}})
	}
}

// requests observes n requests with a status at a time.
func (s *timeline) requests(ms, n, status int) {
	for range n {
		s.observe(ms, telemetry.Event{Kind: telemetry.KindNetwork, Network: &telemetry.Network{Method: "GET", URL: "/api", Status: status}})
	}
}

// ticks lets time pass in steps of 10 s.
func (s *timeline) ticks(from, to int) {
	for ms := from; ms <= to; ms += 10_000 {
		s.tick(ms)
	}
}

// grow makes the app no longer young.
func (s *timeline) grow(ms int) {
	s.young = false
	s.rule.Switch(false, at(ms))
}

const (
	ratioLogs     = "Error spike in logs: more than 3x the rolling average"
	ratioRequests = "Error spike in requests: more than 3x the rolling average"
	tailLogs      = "Error spike in logs: far more than expected"
)

func TestRule(t *testing.T) {
	for _, tt := range []struct {
		name   string
		choice ruleset.Anomaly
		young  bool
		play   func(s *timeline)
		want   []string
	}{
		{"ratio3x: five errors in the logs", ruleset.Ratio3x, false, func(s *timeline) {
			s.errors(0, 5)
			s.ticks(10_000, 200_000)
		}, []string{"0 s: " + ratioLogs, "130 s: Resolved: Error spike in logs (resolves alert 1)"}},
		{"ratio3x: four errors are none", ruleset.Ratio3x, false, func(s *timeline) { s.errors(0, 4) }, nil},
		{"ratio3x: logs and requests are counted apart", ruleset.Ratio3x, false, func(s *timeline) {
			s.errors(0, 4)
			s.requests(0, 4, 500)
			s.requests(1000, 1, 0)
			s.errors(2000, 1)
		}, []string{"1 s: " + ratioRequests, "2 s: " + ratioLogs}},
		{"requests with other statuses are not errors", ruleset.Ratio3x, false, func(s *timeline) {
			s.requests(0, 20, 200)
			s.requests(0, 20, 404)
		}, nil},
		{"logs of other levels are not errors", ruleset.Ratio3x, false, func(s *timeline) {
			for range 20 {
				s.observe(0, telemetry.Event{Kind: telemetry.KindLog, Log: &telemetry.Log{Level: telemetry.LevelWarn, Message: "careful"}})
			}
		}, nil},
		{"a suppressed spike has no end", ruleset.Ratio3x, false, func(s *timeline) {
			s.suppress = true
			s.errors(0, 5)
			s.ticks(10_000, 200_000)
		}, nil},
		{"auto: a young app is judged by ratio3x", ruleset.Auto, true, func(s *timeline) {
			s.errors(0, 5)
		}, []string{"0 s: " + ratioLogs}},
		{"auto: an open spike ends by the rule that found it, and the other rule is silent meanwhile", ruleset.Auto, true, func(s *timeline) {
			s.errors(0, 5)
			s.grow(1000)
			s.errors(2000, 40)
			s.ticks(10_000, 200_000)
		}, []string{"0 s: " + ratioLogs, "140 s: Resolved: Error spike in logs (resolves alert 1)"}},
		{"auto: after that spike, rate-tail judges", ruleset.Auto, true, func(s *timeline) {
			s.errors(0, 5)
			s.grow(1000)
			s.ticks(10_000, 200_000)
			s.errors(3_600_000, 20)
		}, []string{"0 s: " + ratioLogs, "130 s: Resolved: Error spike in logs (resolves alert 1)", "3600 s: " + tailLogs}},
		{"rate-tail: errors where none are usual", ruleset.RateTail, false, func(s *timeline) {
			s.errors(3_600_000, 20)
			s.ticks(3_610_000, 4_000_000)
		}, []string{"3600 s: " + tailLogs, "3730 s: Resolved: Error spike in logs (resolves alert 1)"}},
		{"an incident without a counter ends", ruleset.Ratio3x, false, func(s *timeline) {
			for key := range uint64(6) { // each kind, in both signals
				s.open[key] = rule.Incident{Key: key, ID: fmt.Sprint("old ", key)}
				s.rule = s.newRule() // without counters
				s.tick(0)
			}
		}, []string{
			"0 s: Resolved: Error spike in logs (resolves old 0)", "0 s: Resolved: Error spike in requests (resolves old 1)",
			"0 s: Resolved: Error spike in logs (resolves old 2)", "0 s: Resolved: Error spike in requests (resolves old 3)",
			"0 s: Resolved: Errors in logs have drifted upwards (resolves old 4)", "0 s: Resolved: Errors in requests have drifted upwards (resolves old 5)",
		}},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarts %v", tt.name, restarts), func(t *testing.T) {
				s := newTimeline(t, tt.choice, tt.young, restarts)
				tt.play(s)
				if diff := cmp.Diff(tt.want, s.got); diff != "" {
					t.Errorf("alerts (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestLeadingError checks which spikes name the error that came most often.
func TestLeadingError(t *testing.T) {
	for _, tt := range []struct {
		name   string
		choice ruleset.Anomaly
		play   func(s *timeline)
		want   any
	}{
		{"ratio3x", ruleset.Ratio3x, func(s *timeline) { s.errors(0, 20) }, nil},
		{"rate-tail in logs", ruleset.RateTail, func(s *timeline) { s.errors(3_600_000, 20) }, "0123456789abcdef"},
		{"rate-tail in requests", ruleset.RateTail, func(s *timeline) { s.requests(3_600_000, 20, 500) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTimeline(t, tt.choice, false, false)
			tt.play(s)
			if len(s.alerts) != 1 {
				t.Fatalf("got alerts %q, want one", s.got)
			}
			if got := s.alerts[0].Context["leading_fingerprint"]; got != tt.want {
				t.Errorf("leading_fingerprint = %v, want %v", got, tt.want)
			}
		})
	}
}

// TestSwitch checks that the counters that are not needed are dropped, but not before their
// incident has ended.
func TestSwitch(t *testing.T) {
	s := newTimeline(t, ruleset.Auto, true, false)
	s.errors(0, 5)
	both := s.rule.Size()
	s.grow(1000)
	if got := s.rule.Size(); got < both {
		t.Errorf("%d bytes with the spike open, want the %d bytes of both counters", got, both)
	}
	s.ticks(10_000, 200_000)
	if got := s.rule.Size(); got >= both {
		t.Errorf("%d bytes after the spike, want less than the %d bytes of both counters", got, both)
	}
	if s.rule.Switch(false, at(210_000)) {
		t.Error("Switch reports a change, want none the second time")
	}
}
