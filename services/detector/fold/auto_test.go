package fold_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// findings lists the anomalies and regressions among alerts as "time: title", and their ends
// as "title <- title of what has ended".
func findings(alerts []alert.Alert) (list []string) {
	titles := map[string]string{}
	for _, a := range alerts {
		titles[a.ID] = a.Title
		if a.Category != alert.Anomaly && a.Category != alert.Regression {
			continue
		}
		if a.Resolves != "" {
			list = append(list, a.Title+" <- "+titles[a.Resolves])
			continue
		}
		list = append(list, fmt.Sprintf("%s: %s", a.Timestamp.Sub(start).Truncate(time.Second), a.Title))
	}
	return list
}

const (
	lcpSlower = "LCP regressed 34% on /cart"
	lcpEnd    = "Resolved: LCP regressed on /cart <- "
)

// TestAuto plays timelines of a young app and of a known one by the default rules, with and
// without a restart before each message.
func TestAuto(t *testing.T) {
	loads := func(s *script, from time.Duration, lcp ...float64) {
		for i, v := range lcp {
			s.at(from+time.Duration(i)*time.Second, events(loaded("/cart", v)))
		}
	}
	for _, tt := range []struct {
		name string
		play func(s *script)
		want []string
	}{
		{"young: 12 errors at once", func(s *script) {
			s.burst(0, 12)
			s.ticks(time.Second, 5*time.Minute)
		}, []string{"0s: " + ratioTitle, ratioEnd}},
		{"young: the second load", func(s *script) {
			loads(s, 0, 2500, 3350, 2500)
		}, []string{"1s: " + lcpSlower, lcpEnd + lcpSlower}},
		{"young: the fifth load", func(s *script) {
			loads(s, 0, 2500, 2500, 2500, 2500, 3350, 2500)
		}, []string{"4s: " + lcpSlower, lcpEnd + lcpSlower}},
		{"young: the sixth load is judged by those that follow", func(s *script) {
			loads(s, 0, 2500, 2500, 2500, 2500, 2500, 3350, 2500)
		}, nil},
		{"young: a page and another one", func(s *script) {
			loads(s, 0, 2500, 2500, 2500, 2500, 2500)
			s.at(9*time.Minute, events(loaded("/b", 1000)))
			s.at(9*time.Minute+time.Second, events(loaded("/b", 2000)))
		}, []string{"9m1s: LCP regressed 100% on /b"}},
		{"known: a new page", func(s *script) {
			s.at(0, events(logged(telemetry.LevelInfo, "tick")))
			s.at(10*time.Minute, events(loaded("/b", 1000)))
			s.at(10*time.Minute+time.Second, events(loaded("/b", 2000)))
			s.at(10*time.Minute+2*time.Second, events(loaded("/b", 1000)))
		}, nil},
		{"known: a spike", func(s *script) {
			s.at(0, errorsLogged(1))
			s.burst(10*time.Minute, 30)
			s.ticks(10*time.Minute+2*time.Second, 15*time.Minute)
		}, []string{"10m0s: " + spikeTitle, spikeEnd}},
		{"a burst that begins young and goes on is reported once, and ends by the rule that reported it", func(s *script) {
			s.at(0, errorsLogged(1))
			s.burst(10*time.Minute-2*time.Second, 80) // for 4 s
			s.ticks(10*time.Minute+3*time.Second, 15*time.Minute)
			s.burst(16*time.Minute, 60)
		}, []string{"9m58s: " + ratioTitle, ratioEnd, "16m0s: " + spikeTitle}},
		{"a regression that was found young ends when the page is fast", func(s *script) {
			loads(s, 9*time.Minute, 2500, 3350)
			loads(s, 20*time.Minute, 2500, 2500, 2500, 3350, 2500)
		}, []string{"9m1s: " + lcpSlower, lcpEnd + lcpSlower}},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, ", restarts ", restarts), func(t *testing.T) {
				s := &script{fold: fold.New(auto)}
				if restarts {
					s.before = func() { s.restart(t, auto) }
				}
				tt.play(s)
				if got := findings(s.alerts); !slices.Equal(got, tt.want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
				}
				checkResolutions(t, s.alerts)
			})
		}
	}
}

// TestAutoSwitch checks that the switch from the rules for a young app to those for a
// known one raises and resolves nothing by itself, and that steady errors, which are spikes
// for the rule for young apps, are none for the other rule.
func TestAutoSwitch(t *testing.T) {
	for _, tt := range []struct {
		name   string
		errors func(second int) int
	}{
		{"steady errors", func(int) int { return 2 }},
		{"errors in clusters", func(second int) int {
			if second%20 != 0 {
				return 0
			}
			return 1 + second/20*5%7
		}},
	} {
		for _, restarts := range []bool{false, true} {
			s := &script{fold: fold.New(auto)}
			if restarts {
				s.before = func() { s.restart(t, auto) }
			}
			for second := range 3600 {
				s.at(time.Duration(second)*time.Second, errorsLogged(tt.errors(second)))
			}
			young, known := 0, []string{}
			for _, a := range s.alerts {
				switch at := a.Timestamp.Sub(start); {
				case a.Category != alert.Anomaly || a.IsResolution():
				case at < 10*time.Minute:
					young++
				default:
					known = append(known, fmt.Sprint(at, " ", a.Title))
				}
			}
			if young == 0 || len(known) != 0 {
				t.Errorf("%s, restarts %v: got %d spikes while young, want some; then %q, want none", tt.name, restarts, young, known)
			}
		}
	}
}

// TestAutoCorrelates checks that a regression and a spike within 5 s of a fresh app share
// their correlation id.
func TestAutoCorrelates(t *testing.T) {
	s := &script{fold: fold.New(auto)}
	s.at(0, events(loaded("/cart", 2500)))
	s.at(time.Second, events(loaded("/cart", 3350)))
	s.burst(3*time.Second, 12)
	ids := map[alert.Category]string{}
	for _, a := range s.alerts {
		ids[a.Category] = a.CorrelationID
	}
	if ids[alert.Regression] == "" || ids[alert.Regression] != ids[alert.Anomaly] {
		t.Errorf("got %v of\n%s, want one id for both", ids, s.titles())
	}
}

// TestAutoLetsGo checks that the simple rules take no memory in a known app once they have no
// open incident.
func TestAutoLetsGo(t *testing.T) {
	s, by := &script{fold: fold.New(auto)}, scriptBy(ruleset.RateTail)
	by.fold = fold.New(fold.Config{Rules: ruleset.Table{Default: ruleset.Set{Anomaly: ruleset.RateTail, Regression: ruleset.Confirmed, Noise: ruleset.Mined}}})
	for _, s := range []*script{s, by} {
		for i := range 10 {
			s.at(time.Duration(i)*time.Second, events(loaded(fmt.Sprintf("/page-%c", 'a'+i), 1000)))
		}
		s.at(11*time.Minute, events(logged(telemetry.LevelInfo, "tick")))
	}
	if got, want := s.fold.Stats().Bytes, by.fold.Stats().Bytes; got != want {
		t.Errorf("got %d bytes, want %d as by the statistical rules alone", got, want)
	}
}

// TestUpgradeFrom7 continues from a snapshot of version 7, which fe59af0 wrote 301.5 s after
// the start, after the 53rd message. It has three apps: web with the default rules of then,
// shop with rate-tail, confirmed and mined, and desk with both kinds of rules.
//
// In each app "boom" in pay and GET /api with 503 were reported, and 30 errors within 1.5 s
// are an open spike: found by ratio3x in web and desk, and by rate-tail in shop, where boom
// also escalates. After 20 loads of /cart with an LCP of 1000 ms, one load of web and one of
// shop took 3000 ms.
func TestUpgradeFrom7(t *testing.T) {
	state, err := os.ReadFile("testdata/version7.snapshot")
	if err != nil {
		t.Fatal(err)
	}
	raised := map[string]string{
		"47efsxa353ydxdxn5nqo6iwrf3": "web: " + ratioTitle, "ysdlb4g67kk4id5klsn6aizykd": "shop: " + spikeTitle, "qxk5lvyqqkjwyfov6i6gelbq67": "desk: " + ratioTitle,
		"gcbqzng4luyhf3bhmkwge4et5i": "shop: Error escalates: boom", "y2ytmmcnm5lr3zmf4nmcox77ma": "web: LCP regressed", "tywvxsr7qrmdbpfk3eavsciuo2": "shop: LCP regressed",
	}
	of := func(app string, e telemetry.Event) telemetry.Event {
		e.App = app
		return e
	}
	for _, cfg := range []fold.Config{auto, {}, {Rules: ruleset.Table{Default: ruleset.Set{Anomaly: ruleset.RateTail, Regression: ruleset.Confirmed, Noise: ruleset.Mined}}}} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(cfg.Rules.Default, ", restarts ", restarts), func(t *testing.T) {
				s := &script{fold: fold.New(cfg), seq: 53}
				if err := s.fold.Restore(state); err != nil {
					t.Fatal(err)
				}
				if restarts {
					s.before = func() { s.restart(t, cfg) }
				}
				at := 5*time.Minute + 1550*time.Millisecond
				for i := range 10 { // the spikes continue
					s.at(at+time.Duration(i)*50*time.Millisecond,
						events(of("web", thrown("boom", "pay")), of("shop", thrown("boom", "pay")), of("desk", thrown("boom", "pay"))))
				}
				if got := s.titles(); got != "" {
					t.Fatalf("alerts of the upgrade itself:\n%s\nwant none", got)
				}
				for i := range 3 {
					s.at(5*time.Minute+3*time.Second+time.Duration(i), events(of("web", loaded("/cart", 1000)), of("shop", loaded("/cart", 1000))))
				}
				s.ticks(5*time.Minute+4*time.Second, 10*time.Minute)
				var got []string
				for _, a := range s.alerts {
					got = append(got, a.Title+" <- "+raised[a.Resolves])
				}
				slices.Sort(got)
				want := []string{
					"Resolved: Error escalates: boom <- shop: Error escalates: boom",
					"Resolved: Error spike in logs <- desk: " + ratioTitle,
					"Resolved: Error spike in logs <- shop: " + spikeTitle,
					"Resolved: Error spike in logs <- web: " + ratioTitle,
					"Resolved: LCP regressed on /cart <- web: LCP regressed",
					"Withdrawn: LCP regressed on /cart <- shop: LCP regressed",
				}
				if !slices.Equal(got, want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	}
}

// TestUpgradedAppsAreKnown checks that the statistical rules judge the apps of an older
// snapshot at once.
func TestUpgradedAppsAreKnown(t *testing.T) {
	for _, version := range []string{"version4", "version6", "version7"} {
		state, err := os.ReadFile("testdata/" + version + ".snapshot")
		if err != nil {
			t.Fatal(err)
		}
		s := &script{fold: fold.New(auto), seq: 1000}
		if err := s.fold.Restore(state); err != nil {
			t.Fatal(err)
		}
		s.ticks(20*time.Minute, 20*time.Minute+time.Second) // what is open ends
		s.alerts = nil
		s.at(21*time.Minute, events(loaded("/new", 1000)))
		s.at(21*time.Minute+time.Second, events(loaded("/new", 2000)))
		s.burst(22*time.Minute, 40)
		if got, want := findings(s.alerts), []string{"22m0s: " + spikeTitle}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
		other := logged(telemetry.LevelInfo, "tick")
		other.App = "fresh"
		s.at(23*time.Minute, events(other))
		s.alerts = nil
		for range 12 {
			e := logged(telemetry.LevelError, "boom")
			e.App = "fresh"
			s.at(23*time.Minute+time.Second, events(e))
		}
		if got, want := findings(s.alerts), []string{"23m1s: " + ratioTitle}; !slices.Equal(got, want) {
			t.Errorf("%s, an app that is new: got %q, want %q", version, got, want)
		}
	}
}
