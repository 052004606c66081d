package fold_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestFailingHealthCheck checks that an outage of requests that an automatic rule hides raises
// one alert, and no spike.
func TestFailingHealthCheck(t *testing.T) {
	for _, by := range []ruleset.Noise{ruleset.NoiseSpec, ruleset.Mined} {
		t.Run(by.String(), func(t *testing.T) {
			s := &script{fold: fold.New(fold.Config{Rules: ruleset.Table{Default: ruleset.Set{Noise: by}}})}
			check := func(n, status int, d time.Duration) {
				for range n {
					s.at(d, events(requested("GET", "/health", status)))
				}
			}
			want := func(what, want string) {
				t.Helper()
				if got := s.titles(); got != want {
					t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
				}
				s.alerts = nil
				s.restart(t, fold.Config{Rules: ruleset.Table{Default: ruleset.Set{Noise: by}}})
			}
			check(40, 200, 0)
			s.at(time.Second, fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseAutoDetect}})
			want("auto_detect", "info noise: Noise found and hidden")
			check(6, 503, 2*time.Second)
			const outage = "error network_errors: Server error: GET /health → 503"
			want("an outage", outage)
			check(6, 200, 10*time.Second)
			check(6, 503, 100*time.Second)
			want("98 s later", "")
			check(6, 503, 220*time.Second)
			want("120 s after the last failure", outage)
			s.at(230*time.Second, fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseAdd, Pattern: "/health"}})
			check(6, 503, 400*time.Second)
			want("under a rule that a person added", "")
		})
	}
}

// TestWarningsBesideAnError checks that auto-detection announces no rule about warnings of an
// app with an error in the last 10 minutes.
func TestWarningsBesideAnError(t *testing.T) {
	for _, by := range []ruleset.Noise{ruleset.NoiseSpec, ruleset.Mined} {
		t.Run(by.String(), func(t *testing.T) {
			s := &script{fold: fold.New(fold.Config{Rules: ruleset.Table{Default: ruleset.Set{Noise: by}}})}
			boom := func(d time.Duration) { s.at(d, events(logged(telemetry.LevelError, "boom"))) }
			detect := func(d time.Duration, want int) {
				t.Helper()
				s.alerts = nil
				for i := range 30 {
					s.at(d, events(logged(telemetry.LevelWarn, fmt.Sprintf("slow query %d", i))))
				}
				s.at(d, fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseAutoDetect}})
				announced := 0
				for _, a := range s.alerts {
					if a.Category == alert.Noise {
						announced++
					}
				}
				if announced != want {
					t.Errorf("after %s: %d announcements, want %d; rules %+v", d, announced, want, s.fold.NoiseRules("web"))
				}
			}
			boom(0)
			boom(9 * time.Minute) // a known error
			detect(18*time.Minute, 0)
			hidden := s.fold.Stats().Hidden
			if hidden > 0 {
				t.Errorf("%d events hidden by a proposed rule, want 0", hidden)
			}
			detect(20*time.Minute, 1)
			boom(21 * time.Minute)
			hidden = s.fold.Stats().Hidden
			s.at(22*time.Minute, events(logged(telemetry.LevelWarn, "slow query 7")))
			if got := s.fold.Stats().Hidden - hidden; got > 0 {
				t.Errorf("%d warnings hidden within 10 min of an error, want 0", got)
			}
			s.at(31*time.Minute, events(logged(telemetry.LevelWarn, "slow query 7")))
			if got := s.fold.Stats().Hidden - hidden; got != 1 {
				t.Errorf("%d warnings hidden 10 min after the error, want 1", got)
			}
		})
	}
}
