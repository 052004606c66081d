package frustration_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/frustration"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func at(ms int) time.Time { return time.UnixMilli(1_770_000_000_000 + int64(ms)) }

func action(session, kind, target string) *telemetry.Event {
	return &telemetry.Event{Session: session, URL: "http://localhost/cart", Action: &telemetry.Action{Type: kind, Target: target}}
}

// TestBursts checks at which times there is an alert, by the times of actions on one target.
func TestBursts(t *testing.T) {
	tests := []struct {
		name  string
		kind  string
		times []int
		want  []int
	}{
		{"two clicks are none", "click", []int{0, 100}, nil},
		{"three clicks in a second", "click", []int{0, 500, 999}, []int{999}},
		{"the first of three has just left the window", "click", []int{0, 500, 1000}, nil},
		{"any three within a second", "click", []int{0, 500, 1000, 1499}, []int{1499}},
		{"one alert per burst", "click", []int{0, 1, 2, 3, 500, 1400, 2300, 2301, 2302}, []int{2}},
		{"a window without clicks ends the burst", "click", []int{0, 1, 2, 1002, 1003, 1004}, []int{2, 1004}},
		{"a pause that is 1 ms too short", "click", []int{0, 1, 2, 1001, 1002, 1003}, []int{2}},
		{"a clock that is set back starts again", "click", []int{9000, 9001, 9002, 0, 1, 2}, []int{9002, 2}},
		{"clicks at one instant", "click", []int{5, 5, 5}, []int{5}},
		{"three submits in 10 s", "submit", []int{0, 5000, 9999}, []int{9999}},
		{"three submits in exactly 10 s", "submit", []int{0, 5000, 10_000}, nil},
		{"other actions are none", "input", []int{0, 1, 2, 3}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			targets := frustration.New()
			var got []int
			for _, ms := range tt.times {
				if _, burst := targets.Action("web", action("s1", tt.kind, "#buy"), at(ms)); burst {
					got = append(got, ms)
				}
				targets = restored(t, targets)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("alerts at %v, want %v", got, tt.want)
			}
		})
	}
}

func TestSeparateTargetsSessionsAndTypes(t *testing.T) {
	targets := frustration.New()
	for _, e := range []*telemetry.Event{
		action("s1", "click", "#buy"), action("s1", "click", "#buy"), action("s2", "click", "#buy"),
		action("s1", "click", "#sell"), action("s1", "submit", "#buy"), action("s1", "submit", "#buy"),
	} {
		if a, burst := targets.Action("web", e, at(0)); burst {
			t.Errorf("got alert %q, want none", a.Title)
		}
	}
}

func TestAlert(t *testing.T) {
	for kind, want := range map[string][3]string{
		"click":  {"Repeated clicks on li.item-<n> > button", "3 clicks within 1 s on li.item-42 > button", "user_frustration:web:click:li.item-<n> > button"},
		"submit": {"Form submitted repeatedly: li.item-<n> > button", "submitted 3 times within 10 s: li.item-42 > button", "user_frustration:web:submit:li.item-<n> > button"},
	} {
		targets := frustration.New()
		var a alert.Alert
		for range 3 {
			a, _ = targets.Action("web", action("s1", kind, "li.item-42 > button"), at(0))
		}
		if got := [3]string{a.Title, a.Detail, a.DedupKey}; got != want {
			t.Errorf("title, detail, dedup key = %q, want %q", got, want)
		}
		got := [...]string{string(a.Severity), string(a.Category), a.Source, a.URL}
		if want := [...]string{"warning", "user_frustration", alert.SourceFrustration, "http://localhost/cart"}; got != want {
			t.Errorf("severity, category, source, URL = %q, want %q", got, want)
		}
	}
}

func TestBounded(t *testing.T) {
	targets := frustration.New()
	for i := range frustration.MaxTargets + 1 {
		for range 2 {
			targets.Action("web", action("s1", "click", fmt.Sprint("#", i)), at(0))
		}
	}
	targets = restored(t, targets)
	if _, burst := targets.Action("web", action("s1", "click", "#1"), at(1)); !burst {
		t.Error("got no alert about the third click on #1, want one")
	}
	if a, burst := targets.Action("web", action("s1", "click", "#0"), at(1)); burst {
		t.Errorf("got alert %q about #0, which was forgotten, want none", a.Title)
	}
	if got := targets.Evicted(); got != 1 { // since the restore
		t.Errorf("Evicted() = %d, want 1", got)
	}
}

func restored(t *testing.T, targets *frustration.Targets) *frustration.Targets {
	t.Helper()
	again := frustration.New()
	snapshottest.Copy(t, targets, again)
	if again.Size() != targets.Size() {
		t.Errorf("restored size = %d, want %d", again.Size(), targets.Size())
	}
	return again
}

func BenchmarkAction(b *testing.B) {
	b.ReportAllocs()
	targets := frustration.New()
	e := action("s1", "click", "body > main > li.item-42 > button")
	now := 0
	for b.Loop() {
		targets.Action("web", e, at(now))
		now += 400
	}
}
