package fold_test

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestPlace: an alert says where the event happened that raised it, as far as that
// was reported; what is found in many events, and an end, says nothing of the kind.
func TestPlace(t *testing.T) {
	const page = "http://localhost:3000/users/42?tab=1#x"
	security := telemetry.Event{Kind: telemetry.KindSecurity, App: "web", Security: &telemetry.Security{Type: "csp"}}
	for _, tt := range []struct {
		name   string
		events []telemetry.Event
		// The last alert and what its context says.
		category                        alert.Category
		page, endpoint, release, deploy any
	}{
		{"an error", []telemetry.Event{logged(telemetry.LevelError, "boom")}, alert.Errors, "/users/:id", nil, "web@2", "web@2"},
		{"a request", []telemetry.Event{requested("post", "/api/carts/7?x=1", 500)}, alert.NetworkErrors, "/users/:id", "POST /api/carts/:id", "web@2", "web@2"},
		{"a report", []telemetry.Event{security}, alert.Security, "/users/:id", nil, "web@2", "web@2"},
		{"clicks", []telemetry.Event{clicked("#a"), clicked("#a"), clicked("#a")}, alert.UserFrustration, "/users/:id", nil, "web@2", "web@2"},
		{"a load", []telemetry.Event{loaded("", 100), loaded("", 100), loaded("", 100), loaded("", 100), loaded("", 900)}, alert.Regression, "/users/:id", nil, "web@2", "web@2"},
		{"a spike", repeated(logged(telemetry.LevelInfo, "x"), 5), alert.Anomaly, nil, nil, "web@2", "web@2"},
		{"a threshold", memory(80).Events, alert.Threshold, nil, nil, "web@2", "web@2"},
		{"noise", repeated(logged(telemetry.LevelInfo, "tick"), 700), alert.Noise, nil, nil, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript()
			before := logged(telemetry.LevelInfo, "it runs")
			before.Release = "web@1"
			s.at(0, events(before))
			for i, e := range tt.events {
				e.URL, e.Release = page, "web@2"
				if tt.category == alert.Anomaly {
					e = logged(telemetry.LevelError, "boom")
					e.Release = "web@2"
				}
				s.at(time.Duration(i)*100*time.Millisecond, events(e))
			}
			if len(s.alerts) == 0 || s.alerts[len(s.alerts)-1].Category != tt.category {
				t.Fatal(s.titles())
			}
			context := s.alerts[len(s.alerts)-1].Context
			for key, want := range map[string]any{
				alert.PageKey: tt.page, alert.EndpointKey: tt.endpoint, alert.ReleaseKey: tt.release, alert.DeployKey: tt.deploy,
			} {
				if got := context[key]; got != want {
					t.Errorf("%s is %v, want %v", key, got, want)
				}
			}
		})
	}
}

func repeated(e telemetry.Event, n int) []telemetry.Event {
	all := make([]telemetry.Event, n)
	for i := range all {
		all[i] = e
	}
	return all
}

// TestNoDeployForLong: what runs for long is no deploy any more, and the next one is.
func TestNoDeployForLong(t *testing.T) {
	s := newScript()
	say := func(after time.Duration, release string) map[string]any {
		e := logged(telemetry.LevelError, "boom "+string(rune('a'+len(s.alerts))))
		e.Release = release
		s.at(after, events(e))
		return s.alerts[len(s.alerts)-1].Context
	}
	if c := say(0, "0"); c[alert.DeployKey] != nil || c[alert.ReleaseKey] != "0" {
		t.Errorf("the first release, which may be old: %v", c)
	}
	if c := say(0, "1"); c[alert.DeployKey] != "1" {
		t.Errorf("the next release: %v", c)
	}
	if c := say(10*time.Minute, "1"); c[alert.DeployKey] != nil || c[alert.ReleaseKey] != "1" {
		t.Errorf("10 minutes later: %v", c)
	}
	s.restart(t, fold.Config{})
	if c := say(11*time.Minute, "1"); c[alert.DeployKey] != nil {
		t.Errorf("after a restart: %v", c)
	}
	if c := say(12*time.Minute, "2"); c[alert.DeployKey] != "2" {
		t.Errorf("the next release: %v", c)
	}
	if c := say(13*time.Minute, ""); c[alert.DeployKey] != nil || c[alert.ReleaseKey] != nil {
		t.Errorf("no release: %v", c)
	}
}
