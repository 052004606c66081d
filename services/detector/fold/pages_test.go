package fold_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// confirmed has regressions confirmed, of all apps but shop.
var confirmed = fold.Config{Rules: ruleset.Table{
	Default: ruleset.Set{Regression: ruleset.Confirmed}, Apps: map[string]ruleset.Set{"shop": {}},
}}

// auto is the default of the settings.
var auto = fold.Config{Rules: ruleset.Table{Default: ruleset.Default()}}

// visited is a load of /cart.
func visited(app string, lcp float64, device telemetry.Device) telemetry.Event {
	e := loaded("/cart", lcp)
	e.App, e.Vitals.Device = app, device
	return e
}

// visit loads /cart so many times, a minute apart.
func (s *script) visit(app string, n int, lcp float64, device telemetry.Device) {
	for range n {
		s.at(time.Duration(s.seq+1)*time.Minute, events(visited(app, lcp, device)))
	}
}

// TestRegressionsAreConfirmed: of the apps that want it. For the others one load is
// a regression as before, whatever device it is of.
func TestRegressionsAreConfirmed(t *testing.T) {
	s := &script{fold: fold.New(confirmed)}
	for _, app := range []string{"web", "shop"} {
		s.visit(app, 25, 1000, telemetry.DeviceMobile)
		s.visit(app, 5, 1400, telemetry.DeviceMobile)
		s.visit(app, 4, 1000, telemetry.DeviceMobile)
	}
	want := strings.Repeat("warning regression: LCP regressed 40% on /cart (mobile)\n", 2) +
		"info regression: Resolved: LCP regressed on /cart (mobile)\n" +
		strings.Repeat("warning regression: LCP regressed 40% on /cart\n", 5) +
		"info regression: Resolved: LCP regressed on /cart"
	if got := s.titles(); got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	for i, key := range map[int]string{0: "regression:web:/cart:lcp_ms:mobile", 3: "regression:shop:/cart:lcp_ms"} {
		if s.alerts[i].DedupKey != key {
			t.Errorf("%s, want %s", s.alerts[i].DedupKey, key)
		}
	}
	if s.alerts[2].Resolves != s.alerts[1].ID || s.alerts[1].Resolves != "" {
		t.Errorf("%+v", s.alerts[:3])
	}
}

// TestConfirmedCorrelates: as the contract's rule does.
func TestConfirmedCorrelates(t *testing.T) {
	s := &script{fold: fold.New(confirmed)}
	s.visit("web", 25, 1000, "")
	s.at(time.Hour, events(visited("web", 3000, "")))
	for range 6 {
		s.at(time.Hour+5*time.Second, events(logged(telemetry.LevelError, "boom")))
	}
	ids := map[alert.Category]string{}
	for _, a := range s.alerts {
		ids[a.Category] = a.CorrelationID
	}
	if ids[alert.Regression] == "" || ids[alert.Regression] != ids[alert.Anomaly] {
		t.Errorf("%v\n%s", ids, s.titles())
	}
}

// TestPageBaselinesOfDevices: who asks for a vital as before has that of the class
// with the most loads.
func TestPageBaselinesOfDevices(t *testing.T) {
	s := &script{fold: fold.New(confirmed)}
	s.visit("web", 3, 3000, telemetry.DeviceMobile)
	s.visit("web", 5, 1000, telemetry.DeviceDesktop)
	s.visit("web", 1, 2000, "")
	want := map[string]query.Baseline{
		"lcp_ms": {Median: 1000, Loads: 5}, "lcp_ms:mobile": {Median: 3000, Loads: 3}, "lcp_ms:desktop": {Median: 1000, Loads: 5},
	}
	if got := s.fold.PageBaselines("web", "/cart"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := s.fold.Pages("web"); !reflect.DeepEqual(got, []string{"/cart"}) || s.fold.Stats().Pages != 3 {
		t.Errorf("%v, %+v", got, s.fold.Stats())
	}
}

// TestRuleChangesWithARestart checks that what was usual before a restart with another
// rule is so after it, and that the rule that raised an alert ends it.
func TestRuleChangesWithARestart(t *testing.T) {
	const slower = "\nwarning regression: LCP regressed 40% on /cart"
	for _, tt := range []struct {
		name          string
		before, after fold.Config
		want          string // of what came after the restart
	}{
		{"to confirmed", fold.Config{}, confirmed, "info regression: Resolved: LCP regressed on /cart" + strings.Repeat(slower, 2)},
		{"to auto, of an app that is known", fold.Config{}, auto, "info regression: Resolved: LCP regressed on /cart" + strings.Repeat(slower, 2)},
		{"and back", confirmed, fold.Config{}, "info regression: Withdrawn: LCP regressed on /cart" + strings.Repeat(slower, 5)},
		{"from auto", auto, fold.Config{}, "info regression: Withdrawn: LCP regressed on /cart" + strings.Repeat(slower, 5)},
		{"not at all", confirmed, confirmed, "info regression: Withdrawn: LCP regressed on /cart" + strings.Repeat(slower, 2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{fold: fold.New(tt.before)}
			s.visit("web", 25, 1000, "")
			s.visit("web", 1, 3000, "")
			if len(s.alerts) != 1 {
				t.Fatal(s.titles())
			}
			open := s.alerts[0]
			s.alerts = nil
			s.restart(t, tt.after)
			s.visit("web", 2, 1000, "")
			s.restart(t, tt.after)
			s.visit("web", 5, 1400, "")
			if s.titles() != tt.want || s.alerts[0].Resolves != open.ID {
				t.Errorf("got\n%s\nwant\n%s\n%+v", s.titles(), tt.want, s.alerts)
			}
		})
	}
}

// TestReplayOfConfirmed: whether there was a restart in between or not, the same
// loads give the same alerts, also when there are so many that some are suppressed.
func TestReplayOfConfirmed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other := &script{fold: fold.New(confirmed)}, &script{fold: fold.New(confirmed)}
		now, usual := time.Duration(0), 1000.0
		for range rapid.IntRange(1, 150).Draw(t, "messages") {
			now += rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, time.Minute}).Draw(t, "pause")
			if rapid.IntRange(0, 9).Draw(t, "shift") == 0 {
				usual *= rapid.SampledFrom([]float64{0.5, 1.4, 2}).Draw(t, "by")
			}
			e := visited("web", usual*rapid.SampledFrom([]float64{0.95, 1, 1.05, 3}).Draw(t, "factor"),
				rapid.SampledFrom([]telemetry.Device{"", "", telemetry.DeviceMobile}).Draw(t, "device"))
			one.at(now, events(e))
			if rapid.Bool().Draw(t, "restart") {
				other.restart(t, confirmed)
			}
			other.at(now, events(e))
		}
		if !reflect.DeepEqual(one.alerts, other.alerts) {
			t.Fatalf("undisturbed\n%s\nrestarted\n%s", one.titles(), other.titles())
		}
	})
}

// TestRegressionsEnd: whatever comes, and whichever rule continues from the other after
// a restart, nothing is over that was not reported, nothing twice, and once the page is
// fast on every class of devices nothing is open any more. An alert under the dedup
// key of one that is open takes its place.
func TestRegressionsEnd(t *testing.T) {
	devices := []telemetry.Device{"", telemetry.DeviceMobile, telemetry.DeviceDesktop}
	rapid.Check(t, func(t *rapid.T) {
		either := rapid.SampledFrom([]fold.Config{confirmed, {}, auto})
		s := &script{fold: fold.New(either.Draw(t, "rule"))}
		some := devices
		if rapid.Bool().Draw(t, "all tell their device") {
			some = devices[1:]
		}
		now, usual := time.Duration(0), 1000.0
		for range rapid.IntRange(1, 150).Draw(t, "loads") {
			now += rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, time.Minute}).Draw(t, "pause")
			if rapid.IntRange(0, 9).Draw(t, "shift") == 0 {
				usual *= rapid.SampledFrom([]float64{0.5, 1.4, 2}).Draw(t, "by")
			}
			s.at(now, events(visited("web", usual*rapid.SampledFrom([]float64{0.95, 1, 1.05, 3}).Draw(t, "factor"), rapid.SampledFrom(some).Draw(t, "device"))))
			if rapid.IntRange(0, 19).Draw(t, "restart") == 0 {
				s.restart(t, either.Draw(t, "rule"))
			}
		}
		for range 30 {
			for _, device := range some {
				now += time.Minute
				s.at(now, events(visited("web", 1, device)))
			}
		}
		open, keys := map[string][]string{}, map[string]string{} // the ids of each dedup key, and the other way round
		for _, a := range s.alerts {
			if a.Resolves == "" {
				open[a.DedupKey] = append(open[a.DedupKey], a.ID)
				keys[a.ID] = a.DedupKey
				continue
			}
			for _, id := range append([]string{a.Resolves}, a.AlsoResolves...) {
				i := slices.Index(open[keys[id]], id)
				if i < 0 {
					t.Fatalf("%s ends %q, which is not open\n%s", a.ID, id, s.titles())
				}
				open[keys[id]] = open[keys[id]][i+1:]
			}
		}
		for key, ids := range open {
			if len(ids) > 0 {
				t.Fatalf("%s: %v are open\n%s", key, ids, s.titles())
			}
		}
	})
}
