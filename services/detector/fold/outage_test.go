package fold_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestOutageEndsAfterIt checks that an outage of requests raises one alert, which is resolved
// within three and a half minutes after the outage, and not before: by both rules, at every
// rate, if requests fail evenly or by chance. A longer outage becomes the new level.
func TestOutageEndsAfterIt(t *testing.T) {
	for _, by := range []ruleset.Anomaly{ruleset.Ratio3x, ruleset.RateTail} {
		for _, usual := range []float64{0, 0.05} {
			for _, rate := range []float64{0.5, 1, 2, 30} {
				for _, length := range []time.Duration{time.Minute, 5 * time.Minute, 40 * time.Minute} {
					for seed := range uint64(3) {
						if usual > 0 && rate < 1 {
							continue // 5 in 10 s are no spike where there is one in 20 s
						}
						name := fmt.Sprintf("%v, %v/s for %v where %v/s are usual, seed %d", by, rate, length, usual, seed)
						checkOutage(t, name, by, usual, rate, length, seed)
					}
				}
			}
		}
	}
}

func checkOutage(t *testing.T, name string, by ruleset.Anomaly, usual, rate float64, length time.Duration, seed uint64) {
	t.Helper()
	const begin = 20 * time.Minute
	r := rand.New(rand.NewPCG(seed, 15))
	s := scriptBy(by)
	fails := func(from, to time.Duration, rate float64, even bool) {
		for at := from; rate > 0; {
			gap := 1.0
			if !even {
				gap = r.ExpFloat64()
			}
			if at += time.Duration(gap / rate * float64(time.Second)); at >= to {
				return
			}
			s.at(at, events(requested("GET", "/x", 503)))
		}
	}
	s.at(0, events(requested("GET", "/x", 200)))
	fails(0, begin, usual, false)
	if n := len(spikes(s.alerts)); n > 0 && by == ruleset.RateTail {
		t.Fatalf("%s: %d spikes before the outage, want 0", name, n)
	}
	s.alerts = nil
	fails(begin, begin+length, rate, seed == 0)
	during := len(spikes(s.alerts))
	for at := begin + length; at < begin+length+10*time.Minute; at += 5 * time.Second {
		s.at(at, fold.Message{})
	}
	all := spikes(s.alerts)
	if length <= 15*time.Minute {
		if during != 1 {
			t.Errorf("%s: during the outage %d alerts, want one, open\n%s", name, during, anomalies(all))
			return
		}
		if len(all) != 2 || all[1].Resolves != all[0].ID || !all[1].OnlyResolves() {
			t.Errorf("%s: got %d alerts, want the end of the first\n%s", name, len(all), anomalies(all))
			return
		}
		if after := all[1].Timestamp.Sub(start) - begin - length; after < 110*time.Second || after > 210*time.Second {
			t.Errorf("%s: resolved %v after the outage ended, want about 130 s", name, after)
		}
		return
	}
	// By ratio3x there can be further spikes by chance.
	if during < 2 || by == ruleset.RateTail && during > 2 || all[1].Resolves != all[0].ID || all[1].Context[alert.OutcomeKey] != alert.NewLevel {
		t.Errorf("%s: got %d alerts in 40 min, want one and its new level\n%s", name, during, anomalies(all))
		return
	}
	if took := all[1].Timestamp.Sub(all[0].Timestamp); took < 15*time.Minute || took > 18*time.Minute {
		t.Errorf("%s: the new level after %v, want 15 min", name, took)
	}
}

func spikes(alerts []alert.Alert) (some []alert.Alert) {
	for _, a := range alerts {
		if a.Category == alert.Anomaly {
			some = append(some, a)
		}
	}
	return some
}

// TestRecurringWhileRequestsFail checks that a recurring burst of errors has severity error
// while over 30% of the app's requests fail, and info while 30% fail.
func TestRecurringWhileRequestsFail(t *testing.T) {
	for _, tt := range []struct {
		failed int // of ten requests a second
		want   alert.Severity
	}{{0, alert.Info}, {3, alert.Info}, {4, alert.Error}} {
		for _, restarts := range []bool{false, true} {
			s := scriptBy(ruleset.RateTail)
			s.at(0, errorsLogged(1))
			for i := range time.Duration(4) {
				s.burst((i+1)*5*time.Minute, 20)
			}
			var all []telemetry.Event
			for i := range 10 {
				status := 200
				if i < tt.failed {
					status = 500
				}
				all = append(all, requested("GET", "/y", status))
			}
			for i := range time.Duration(8) {
				s.at(24*time.Minute+52*time.Second+i*time.Second, events(all...))
			}
			s.alerts = nil
			if restarts {
				s.restart(t, judgedBy(ruleset.RateTail))
			}
			s.burst(25*time.Minute, 20)
			var got []alert.Alert
			for _, a := range spikes(s.alerts) {
				if a.Context[alert.SignalKey] == alert.SignalLogs && a.Resolves == "" {
					got = append(got, a)
				}
			}
			if len(got) != 1 || got[0].Severity != tt.want || got[0].Revises != "" {
				t.Errorf("%d of 10 requests fail, restarts %v: got %+v, want one alert of severity %s", tt.failed, restarts, got, tt.want)
			}
		}
	}
}
