package fold_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// judged returns a script whose apps have a rule for error spikes.
func judged(by ruleset.Anomaly) (*script, fold.Config) {
	cfg := fold.Config{Rules: ruleset.Table{Default: ruleset.Set{Anomaly: by}}}
	return &script{fold: fold.New(cfg)}, cfg
}

// escalation plays two errors that come once in 10 s for ten minutes. Then one comes twice a
// second for 15 s, and only the other one comes for half an hour. It returns the alerts.
func escalation(t *testing.T, by ruleset.Anomaly, restarts bool) []alert.Alert {
	t.Helper()
	s, cfg := judged(by)
	observe := func(at time.Duration, e ...telemetry.Event) {
		if restarts {
			s.restart(t, cfg)
		}
		s.at(at, events(e...))
	}
	boom, other := thrown("boom", "pay"), thrown("other", "cart")
	at := time.Duration(0)
	for ; at < 10*time.Minute; at += 10 * time.Second {
		observe(at, boom, other)
	}
	for i := range 30 {
		observe(at+time.Duration(i)*500*time.Millisecond, boom)
	}
	for at += 15 * time.Second; at < 40*time.Minute; at += 10 * time.Second {
		observe(at, other)
	}
	return s.alerts
}

func ofErrors(all []alert.Alert) (titles []string) {
	for _, a := range all {
		if a.Category == alert.Errors {
			titles = append(titles, a.Title)
		}
	}
	return titles
}

// TestEscalation checks that an error that comes far faster than before is reported once, with
// its end, by rate-tail and auto, and not by ratio3x.
func TestEscalation(t *testing.T) {
	const began, over = "Error escalates: boom", "Resolved: Error escalates: boom"
	first := []string{"New error: boom", "New error: other"}
	for _, tt := range []struct {
		by   ruleset.Anomaly
		want []string
	}{
		{ruleset.Ratio3x, first},
		{ruleset.RateTail, slices.Concat(first, []string{began, over})},
		{ruleset.Auto, slices.Concat(first, []string{began, over})},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.by, ", restarts ", restarts), func(t *testing.T) {
				all := escalation(t, tt.by, restarts)
				if got := ofErrors(all); !slices.Equal(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				checkEscalation(t, all)
			})
		}
	}
}

// TestEscalationStays checks that an error that stays as frequent for 15 min is not reported
// as resolved, but as a new level.
func TestEscalationStays(t *testing.T) {
	s, _ := judged(ruleset.RateTail)
	for at := time.Duration(0); at < 35*time.Minute; at += 10 * time.Second {
		s.at(at, events(thrown("boom", "pay")))
		for i := time.Duration(1); i < 50 && at >= 10*time.Minute; i++ {
			s.at(at+i*200*time.Millisecond, events(thrown("boom", "pay")))
		}
	}
	if got, want := ofErrors(s.alerts), []string{"New error: boom", "Error escalates: boom", "Error stays frequent, now treated as normal: boom"}; !slices.Equal(got, want) {
		t.Fatalf("alerts = %q, want %q", got, want)
	}
	for _, a := range s.alerts {
		if a.Category != alert.Errors || a.Resolves == "" {
			continue
		}
		if a.OnlyResolves() {
			t.Errorf("%q only resolves, want a new level", a.Title)
		}
		if want := "After 15 min, 51 errors in 10 s are what is expected"; a.Detail != want {
			t.Errorf("detail = %q, want %q", a.Detail, want)
		}
	}
}

func checkEscalation(t *testing.T, all []alert.Alert) {
	t.Helper()
	var reported alert.Alert
	for _, a := range all {
		switch {
		case strings.HasPrefix(a.Title, "Error escalates: "):
			reported = a
		case a.Title == "Resolved: "+reported.Title:
			got := []any{a.Resolves, a.DedupKey, a.Severity, a.Context["fingerprint"]}
			want := []any{reported.ID, reported.DedupKey, alert.Info, reported.Context["fingerprint"]}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("resolves, dedup key, severity and fingerprint of the end (-want +got):\n%s", diff)
			}
		}
	}
	if reported.ID == "" {
		return
	}
	detail := regexp.MustCompile(`^\d+ errors in \d+ s; expected [\d.]+; p = \de-\d+ \(first seen 2026-02-02 02:40:00 UTC, seen \d+ times\): boom$`)
	name, _ := reported.Context["fingerprint"].(string)
	if !detail.MatchString(reported.Detail) {
		t.Errorf("detail = %q, want a match of %s", reported.Detail, detail)
	}
	got := []any{reported.Severity, reported.DedupKey, reported.Context["state"], reported.Context["top_frame"], reported.Context[alert.SignalKey]}
	want := []any{alert.Error, "errors:web:" + name + ":escalating", "escalating", "pay (src/cart.js)", nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("severity, dedup key, state, top frame and signal (-want +got):\n%s", diff)
	}
	if reported.Context["expected"] == nil {
		t.Errorf("context = %v, want the expected count in it", reported.Context)
	}
}

// TestEscalationAndSpike checks that an escalation and a spike of the whole signal have one
// correlation id, and that the spike names the error.
func TestEscalationAndSpike(t *testing.T) {
	all := escalation(t, ruleset.RateTail, false)
	var escalates, spike alert.Alert
	for _, a := range all {
		switch {
		case strings.HasPrefix(a.Title, "Error escalates"):
			escalates = a
		case a.Category == alert.Anomaly && !a.IsResolution():
			spike = a
		}
	}
	if spike.ID == "" {
		t.Fatal("got no spike, want one")
	}
	if got, want := escalates.CorrelationID, spike.CorrelationID; got != want {
		t.Errorf("correlation id = %q, want that of the spike, %q", got, want)
	}
	if got, want := spike.Context["leading_fingerprint"], escalates.Context["fingerprint"]; got != want {
		t.Errorf("leading_fingerprint = %v, want %v", got, want)
	}
}

// TestEscalationEnds checks that an escalation ends when the error is calm, also if the app has
// another rule by then, and at once if the error was forgotten.
func TestEscalationEnds(t *testing.T) {
	burst := func(s *script) {
		for i := range 60 {
			s.at(time.Duration(i)*10*time.Second, events(thrown("boom", "pay")))
		}
		for range 20 {
			s.at(10*time.Minute, events(thrown("boom", "pay")))
		}
	}
	s, _ := judged(ruleset.RateTail)
	burst(s)
	s.restart(t, fold.Config{})
	s.ticks(10*time.Minute+time.Second, 10*time.Minute+5*time.Second)
	if got := ofErrors(s.alerts); len(got) != 2 {
		t.Errorf("by ratio3x, while the error comes fast: alerts = %q, want 2", got)
	}
	s.restart(t, fold.Config{})
	s.ticks(10*time.Minute+6*time.Second, 10*time.Minute+20*time.Second)
	if got := ofErrors(s.alerts); len(got) != 3 || got[2] != "Resolved: Error escalates: boom" {
		t.Errorf("by ratio3x, once the error is calm: alerts = %q, want a third that resolves the escalation", got)
	}
	s, _ = judged(ruleset.RateTail)
	burst(s)
	for i := range 5001 {
		s.at(10*time.Minute, events(logged(telemetry.LevelError, fmt.Sprintf("%c%c%c", 'g'+i%20, 'g'+i/20%20, 'g'+i/400))))
	}
	a := s.alerts[len(s.alerts)-2]
	if got, want := [...]string{a.Title, a.Detail}, [...]string{"Resolved: Error escalates: boom", "The rate of this error is no longer known"}; got != want {
		t.Errorf("once the error is forgotten: title, detail = %q, want %q", got, want)
	}
}
