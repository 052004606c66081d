package fold_test

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestPageAndRelease checks that the context of an alert has the page, endpoint, release and
// deploy of its event, and that alerts about many events have none.
func TestPageAndRelease(t *testing.T) {
	const page = "http://localhost:3000/users/42?tab=1#x"
	security := telemetry.Event{Kind: telemetry.KindSecurity, App: "web", Security: &telemetry.Security{Type: "csp"}}
	for _, tt := range []struct {
		name   string
		events []telemetry.Event
		// category is that of the last alert, and the others are in its context.
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
				t.Fatalf("got\n%s\nwant an alert of category %s at the end", s.titles(), tt.category)
			}
			context := s.alerts[len(s.alerts)-1].Context
			for key, want := range map[string]any{
				alert.PageKey: tt.page, alert.EndpointKey: tt.endpoint, alert.ReleaseKey: tt.release, alert.DeployKey: tt.deploy,
			} {
				if got := context[key]; got != want {
					t.Errorf("%s = %v, want %v", key, got, want)
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

// TestDeployEnds checks that a release counts as a deploy for 10 minutes after its first event.
func TestDeployEnds(t *testing.T) {
	s := newScript()
	for _, tt := range []struct {
		name                    string
		after                   time.Duration
		release                 string
		restart                 bool
		wantRelease, wantDeploy any // release and deploy in the context
	}{
		{"the first release, which may be old", 0, "0", false, "0", nil},
		{"the next release", 0, "1", false, "1", "1"},
		{"10 minutes later", 10 * time.Minute, "1", false, "1", nil},
		{"after a restart", 11 * time.Minute, "1", true, "1", nil},
		{"the release after that", 12 * time.Minute, "2", false, "2", "2"},
		{"no release", 13 * time.Minute, "", false, nil, nil},
	} {
		if tt.restart {
			s.restart(t, fold.Config{})
		}
		e := logged(telemetry.LevelError, "boom "+string(rune('a'+len(s.alerts))))
		e.Release = tt.release
		s.at(tt.after, events(e))
		context := s.alerts[len(s.alerts)-1].Context
		if got := context[alert.ReleaseKey]; got != tt.wantRelease {
			t.Errorf("%s: release = %v, want %v", tt.name, got, tt.wantRelease)
		}
		if got := context[alert.DeployKey]; got != tt.wantDeploy {
			t.Errorf("%s: deploy = %v, want %v", tt.name, got, tt.wantDeploy)
		}
	}
}
