package fold_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// confirmed chooses the rule confirmed for all apps except shop.
var confirmed = fold.Config{Rules: ruleset.Table{
	Default: ruleset.Set{Regression: ruleset.Confirmed}, Apps: map[string]ruleset.Set{"shop": {}},
}}

// auto is the default of the settings.
var auto = fold.Config{Rules: ruleset.Table{Default: ruleset.Default()}}

// visited returns a load of /cart.
func visited(app string, lcp float64, device telemetry.Device) telemetry.Event {
	e := loaded("/cart", lcp)
	e.App, e.Vitals.Device = app, device
	return e
}

// visit loads /cart n times, a minute apart.
func (s *script) visit(app string, n int, lcp float64, device telemetry.Device) {
	for range n {
		s.at(time.Duration(s.seq+1)*time.Minute, events(visited(app, lcp, device)))
	}
}

// TestRegressionsAreConfirmed checks the rule confirmed, and that for the app with the rule
// spec one load is a regression, of any device.
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
		if got := s.alerts[i].DedupKey; got != key {
			t.Errorf("dedup key of alert %d = %s, want %s", i, got, key)
		}
	}
	if got, want := [...]string{s.alerts[1].Resolves, s.alerts[2].Resolves}, [...]string{"", s.alerts[1].ID}; got != want {
		t.Errorf("the second and third alert resolve %q, want %q", got, want)
	}
}

// TestConfirmedCorrelates checks that a regression found by confirmed is correlated with a
// spike.
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
		t.Errorf("correlation ids = %v, want one id for regression and anomaly\n%s", ids, s.titles())
	}
}

// TestPageBaselinesOfDevices checks that a vital without a class of devices is that of the
// class with the most loads.
func TestPageBaselinesOfDevices(t *testing.T) {
	s := &script{fold: fold.New(confirmed)}
	s.visit("web", 3, 3000, telemetry.DeviceMobile)
	s.visit("web", 5, 1000, telemetry.DeviceDesktop)
	s.visit("web", 1, 2000, "")
	want := map[string]query.Baseline{
		"lcp_ms": {Median: 1000, Loads: 5}, "lcp_ms:mobile": {Median: 3000, Loads: 3}, "lcp_ms:desktop": {Median: 1000, Loads: 5},
	}
	if diff := cmp.Diff(want, s.fold.PageBaselines("web", "/cart")); diff != "" {
		t.Errorf("PageBaselines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/cart"}, s.fold.Pages("web")); diff != "" {
		t.Errorf("Pages (-want +got):\n%s", diff)
	}
	if got := s.fold.Stats().Pages; got != 3 {
		t.Errorf("Stats().Pages = %d, want 3", got)
	}
}

// TestRuleChangesWithARestart checks that baselines outlive a restart with another rule, and
// that the rule that raised an alert ends it.
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
				t.Fatalf("%d alerts before the restart, want 1\n%s", len(s.alerts), s.titles())
			}
			open := s.alerts[0]
			s.alerts = nil
			s.restart(t, tt.after)
			s.visit("web", 2, 1000, "")
			s.restart(t, tt.after)
			s.visit("web", 5, 1400, "")
			if got := s.titles(); got != tt.want {
				t.Fatalf("got\n%s\nwant\n%s", got, tt.want)
			}
			if got := s.alerts[0].Resolves; got != open.ID {
				t.Errorf("the first alert resolves %q, want %q", got, open.ID)
			}
		})
	}
}

// TestReplayOfConfirmed checks that the same loads give the same alerts with and without
// restarts, also when some are suppressed.
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
		if diff := cmp.Diff(one.alerts, other.alerts); diff != "" {
			t.Fatalf("alerts (-without +with restarts):\n%s", diff)
		}
	})
}

// TestRegressionsEnd checks that only open regressions are resolved, and that none is open once
// the page is fast on every class of devices, also when the rule changes with a restart. An
// alert with the dedup key of an open one replaces it.
func TestRegressionsEnd(t *testing.T) {
	devices := []telemetry.Device{"", telemetry.DeviceMobile, telemetry.DeviceDesktop}
	rapid.Check(t, func(t *rapid.T) {
		either := rapid.SampledFrom([]fold.Config{confirmed, {}, auto})
		s := &script{fold: fold.New(either.Draw(t, "rule"))}
		some := devices
		if rapid.Bool().Draw(t, "all loads have a device") {
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
		open, keys := map[string][]string{}, map[string]string{} // ids by dedup key, and dedup keys by id
		for _, a := range s.alerts {
			if a.Resolves == "" {
				open[a.DedupKey] = append(open[a.DedupKey], a.ID)
				keys[a.ID] = a.DedupKey
				continue
			}
			for _, id := range append([]string{a.Resolves}, a.AlsoResolves...) {
				i := slices.Index(open[keys[id]], id)
				if i < 0 {
					t.Fatalf("%s resolves %q, want one of the open alerts %v\n%s", a.ID, id, open, s.titles())
				}
				open[keys[id]] = open[keys[id]][i+1:]
			}
		}
		for key, ids := range open {
			if len(ids) > 0 {
				t.Fatalf("%s: open alerts = %v, want none\n%s", key, ids, s.titles())
			}
		}
	})
}
