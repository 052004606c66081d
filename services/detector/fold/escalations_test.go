package fold_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// judged is a script whose apps are judged by a rule for anomalies.
func judged(by ruleset.Anomaly) (*script, fold.Config) {
	cfg := fold.Config{Rules: ruleset.Table{Default: ruleset.Set{Anomaly: by}}}
	return &script{fold: fold.New(cfg)}, cfg
}

// escalation plays an error of ten minutes at one in 10 s, which then comes twice a
// second for 15 s while another continues as before, and half an hour after which there is
// little. It returns what was reported.
func escalation(t *testing.T, by ruleset.Anomaly, restarts bool) []alert.Alert {
	t.Helper()
	s, cfg := judged(by)
	say := func(at time.Duration, e ...telemetry.Event) {
		if restarts {
			s.restart(t, cfg)
		}
		s.at(at, events(e...))
	}
	boom, other := thrown("boom", "pay"), thrown("other", "cart")
	at := time.Duration(0)
	for ; at < 10*time.Minute; at += 10 * time.Second {
		say(at, boom, other)
	}
	for i := range 30 {
		say(at+time.Duration(i)*500*time.Millisecond, boom)
	}
	for at += 15 * time.Second; at < 40*time.Minute; at += 10 * time.Second {
		say(at, other)
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

// TestEscalation: an error that comes far faster than it did is reported once, with its
// end, where the app is judged by how likely that is, or is known; and by the contract's
// rule it is not.
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

// TestEscalationStays: an error that continues coming as fast for 15 min is not reported
// to be over, although it doesn't escalate any more.
func TestEscalationStays(t *testing.T) {
	s, _ := judged(ruleset.RateTail)
	for at := time.Duration(0); at < 35*time.Minute; at += 10 * time.Second {
		s.at(at, events(thrown("boom", "pay")))
		for i := time.Duration(1); i < 50 && at >= 10*time.Minute; i++ {
			s.at(at+i*200*time.Millisecond, events(thrown("boom", "pay")))
		}
	}
	if got, want := ofErrors(s.alerts), []string{"New error: boom", "Error escalates: boom", "Error stays frequent, now treated as normal: boom"}; !slices.Equal(got, want) {
		t.Fatalf("got %q", got)
	}
	for _, a := range s.alerts {
		if a.Category == alert.Errors && a.Resolves != "" && (a.OnlyResolves() || a.Detail != "After 15 min, 51 errors in 10 s are what is expected") {
			t.Errorf("%+v", a)
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
			if a.Resolves != reported.ID || a.DedupKey != reported.DedupKey || a.Severity != alert.Info || a.Context["fingerprint"] != reported.Context["fingerprint"] {
				t.Errorf("the end: %+v", a)
			}
		}
	}
	if reported.ID == "" {
		return
	}
	detail := regexp.MustCompile(`^\d+ errors in \d+ s; expected [\d.]+; p = \de-\d+ \(first seen 2026-02-02 02:40:00 UTC, seen \d+ times\): boom$`)
	name, _ := reported.Context["fingerprint"].(string)
	if !detail.MatchString(reported.Detail) || reported.Severity != alert.Error || reported.DedupKey != "errors:web:"+name+":escalating" ||
		reported.Context["state"] != "escalating" || reported.Context["top_frame"] != "pay (src/cart.js)" || reported.Context["expected"] == nil || reported.Context[alert.SignalKey] != nil {
		t.Errorf("%+v", reported)
	}
}

// TestEscalationAndSpike: where the whole signal spikes with the error, both alerts have
// one correlation id, and the spike names the error.
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
	if spike.ID == "" || escalates.CorrelationID != spike.CorrelationID || spike.Context["leading_fingerprint"] != escalates.Context["fingerprint"] {
		t.Errorf("%+v\nand\n%+v", escalates, spike)
	}
}

// TestEscalationOfWhatIsForgotten checks that the alert of an error ends when the error
// is calm, also where the app is judged by another rule by then, and at once where the
// error was forgotten.
func TestEscalationOfWhatIsForgotten(t *testing.T) {
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
		t.Errorf("judged by the specification's rule, while it goes on: got %q", got)
	}
	s.restart(t, fold.Config{})
	s.ticks(10*time.Minute+6*time.Second, 10*time.Minute+20*time.Second)
	if got := ofErrors(s.alerts); len(got) != 3 || got[2] != "Resolved: Error escalates: boom" {
		t.Errorf("judged by the specification's rule, when it is over: got %q", got)
	}
	s, _ = judged(ruleset.RateTail)
	burst(s)
	for i := range 5001 {
		s.at(10*time.Minute, events(logged(telemetry.LevelError, fmt.Sprintf("%c%c%c", 'g'+i%20, 'g'+i/20%20, 'g'+i/400))))
	}
	if a := s.alerts[len(s.alerts)-2]; a.Title != "Resolved: Error escalates: boom" || a.Detail != "The rate of this error is no longer known" {
		t.Errorf("forgotten: %+v", s.alerts[len(s.alerts)-2:])
	}
}
