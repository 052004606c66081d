package fold_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestResolvedAfterItEnds checks that a page that is slow for 45 s is resolved after that and
// not before, by every rule, with and without restarts. A page that stays slow becomes a new
// level, which is not a resolution.
func TestResolvedAfterItEnds(t *testing.T) {
	const second = time.Second
	for _, rule := range []ruleset.Regression{ruleset.Spec, ruleset.Confirmed} {
		cfg := fold.Config{Rules: ruleset.Table{Default: ruleset.Set{Regression: rule}}}
		for _, tt := range []struct {
			apart, slow time.Duration
			outcome     string
		}{
			{second, 45 * second, "Resolved"}, {5 * second, 45 * second, "Resolved"},
			{second / 4, 45 * second, "Resolved"},
			{5 * second, 10 * time.Minute, "New level"}, {2 * time.Minute, time.Hour, "New level"},
		} {
			for _, restarts := range []bool{false, true} {
				name := fmt.Sprintf("%v, a load each %v, slow for %v, restarts %v", rule, tt.apart, tt.slow, restarts)
				s, now := &script{fold: fold.New(cfg)}, time.Duration(0)
				load := func(n int, lcp float64) {
					for i := range n {
						if restarts {
							s.restart(t, cfg)
						}
						s.at(now, events(loaded("/cart", lcp*[]float64{1, 1.04, 0.97, 1.01}[i%4])))
						now += tt.apart
					}
				}
				load(30, 2500)
				if len(s.alerts) > 0 {
					t.Fatalf("%s: got alerts\n%s\nwant none before the page is slow", name, s.titles())
				}
				begins := now
				load(int(tt.slow/tt.apart), 5000)
				ends := now
				load(15, 2500)
				var ended []alert.Alert
				for _, a := range s.alerts {
					if a.Resolves != "" {
						ended = append(ended, a)
					}
				}
				checkResolutions(t, s.alerts)
				if len(ended) != 1 || !strings.HasPrefix(ended[0].Title, tt.outcome+": ") {
					t.Errorf("%s: want one end, %s, got\n%s", name, tt.outcome, s.titles())
					continue
				}
				at := ended[0].Timestamp.Sub(start)
				isNew := ended[0].Context[alert.OutcomeKey] == alert.NewLevel
				if tt.outcome == "Resolved" && (at < ends || isNew) || tt.outcome == "New level" && (at < begins+20*second || at > ends || !isNew || ended[0].OnlyResolves()) {
					t.Errorf("%s: slow from %v to %v: got %q at %v with new level %v, want %s", name, begins, ends, ended[0].Title, at, isNew, tt.outcome)
				}
			}
		}
	}
}
