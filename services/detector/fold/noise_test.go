package fold_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var mined = fold.Config{Rules: ruleset.Table{Default: ruleset.Set{Noise: ruleset.Mined}}}

var people = []string{"ada", "bob", "cy", "dan", "eve", "fay", "gil"}

// chatter returns n logs of a level, each with the name of one of the people.
func chatter(n int, level telemetry.Level, line string) fold.Message {
	var all []telemetry.Event
	for i := range n {
		all = append(all, logged(level, fmt.Sprintf(line, people[i%len(people)])))
	}
	return events(all...)
}

// TestMined checks a rule about errors of a tool that differ in a word. They are reported
// until the rule applies, and hidden and counted from then on. The errors of the app are
// never hidden. Once the rule is removed, the errors of the tool are reported again.
func TestMined(t *testing.T) {
	s := &script{fold: fold.New(mined)}
	const line = "[vite] cannot load %s now"
	s.at(0, chatter(14, telemetry.LevelError, line))
	s.at(time.Second, chatter(100, telemetry.LevelInfo, "user %s signed in"))
	s.at(time.Minute, events()) // no event, so no time passes for the app
	s.at(time.Minute, chatter(1, telemetry.LevelInfo, "hello"))
	reported := len(s.alerts)
	if last := s.alerts[reported-1]; last.Category != alert.Noise || last.Detail != "Hidden from now on: user <*> signed in" || last.Context["proposed"] != 1 {
		t.Fatalf("last alert = %+v, want the announcement of a rule and a proposed one", last)
	}
	list := s.fold.NoiseRules("web")
	if len(list) != 2 || list[0].Pattern != "[vite] cannot load <*> now" || list[0].WouldHideLast10Min != 14 || list[0].WouldHide != 14 || list[0].WouldHoldAlerts != 14 {
		t.Fatalf("rules = %+v, want 2, the first about 14 errors of the tool", list)
	}
	id := list[0].ID
	out := s.at(2*time.Minute, fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseAdd, RuleID: id}})
	if out.Noise.Err != nil || out.Noise.Added != id {
		t.Errorf("add: %+v, want rule %s", out.Noise, id)
	}
	s.at(170*time.Second, events()) // the spike of the errors ends, 120 s after it calmed
	reported = len(s.alerts)
	s.at(3*time.Minute, chatter(7, telemetry.LevelError, line))
	s.at(3*time.Minute, events(logged(telemetry.LevelError, "[vite] cannot load zoe now")))
	if len(s.alerts) != reported {
		t.Errorf("%d alerts, want %d without the hidden errors:\n%s", len(s.alerts), reported, s.titles())
	}
	if r := s.fold.NoiseRules("web")[0]; r.State != "applied" || r.Hidden != 8 || r.AlertsHeld != 8 || r.HiddenLast10Min != 8 || !r.Since.Equal(start.Add(2*time.Minute)) {
		t.Errorf("rule = %+v, want it applied since 2 min, with 8 hidden errors", r)
	}
	s.at(4*time.Minute, events(logged(telemetry.LevelError, "user ada signed in")))
	if reported++; len(s.alerts) != reported || s.alerts[reported-1].Category != alert.Errors {
		t.Errorf("%d alerts, want %d with the error:\n%s", len(s.alerts), reported, s.titles())
	}
	for _, action := range []query.NoiseAction{query.NoiseRemove, query.NoiseAutoDetect} {
		if out = s.at(5*time.Minute, fold.Message{Noise: &query.NoiseRequest{Action: action, RuleID: id}}); out.Noise.Err != nil {
			t.Errorf("%s: %v, want no error", action, out.Noise.Err)
		}
	}
	s.at(40*time.Minute, chatter(14, telemetry.LevelError, line))
	s.at(41*time.Minute, chatter(30, telemetry.LevelError, line))
	if len(s.alerts) == reported || len(s.fold.NoiseRules("web")) != 1 {
		t.Errorf("%d alerts and rules %+v, want more than %d alerts and no rule about the errors", len(s.alerts), s.fold.NoiseRules("web"), reported)
	}
	if removed := s.fold.RemovedNoiseRules(""); len(removed) != 1 || removed[0].ID != id || removed[0].App != "web" {
		t.Errorf("removed rules = %+v, want %s of web", removed, id)
	}
	if out := s.at(42*time.Minute, fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseAdd, RuleID: "noise_none"}}); !errors.Is(out.Noise.Err, noise.ErrNoRule) || out.Noise.Added != "" {
		t.Errorf("add an unknown rule: %+v, want %v", out.Noise, noise.ErrNoRule)
	}
}

// TestMinedReplay is TestReplay for logs that repeat.
func TestMinedReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other := &script{fold: fold.New(mined)}, &script{fold: fold.New(mined)}
		now := time.Duration(0)
		for range rapid.IntRange(1, 30).Draw(t, "messages") {
			now += rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, 9 * time.Minute}).Draw(t, "gap")
			m := chatter(rapid.IntRange(0, 30).Draw(t, "lines"), rapid.SampledFrom([]telemetry.Level{"info", "warn", "error"}).Draw(t, "level"),
				rapid.SampledFrom([]string{"user %s signed in", "user %s signed in from eu", "user ada signed in from %s", "[HMR] %s is not there yet", "%s"}).Draw(t, "line"))
			if all := one.fold.NoiseRules(""); len(all) > 0 && rapid.Bool().Draw(t, "command") {
				m = fold.Message{Noise: &query.NoiseRequest{
					Action: rapid.SampledFrom([]query.NoiseAction{query.NoiseAdd, query.NoiseRemove}).Draw(t, "action"),
					RuleID: all[rapid.IntRange(0, len(all)-1).Draw(t, "rule")].ID,
				}}
			}
			one.at(now, m)
			if rapid.Bool().Draw(t, "restart") {
				other.restart(t, mined)
			}
			other.at(now, m)
		}
		if diff := cmp.Diff(one.alerts, other.alerts); diff != "" {
			t.Fatalf("alerts (-without +with restarts):\n%s", diff)
		}
		if diff := cmp.Diff(one.fold.NoiseRules(""), other.fold.NoiseRules("")); diff != "" {
			t.Fatalf("rules (-without +with restarts):\n%s", diff)
		}
		first, err := one.fold.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if second, err := other.fold.Snapshot(); err != nil || !slices.Equal(first, second) {
			t.Fatalf("the snapshot with restarts differs (error %v), want the same", err)
		}
	})
}

// BenchmarkApplyMined is how fast chatter is folded in that differs in words: of kinds
// that rules hide, and of none, at so low a rate that auto-detection runs every few
// messages.
func BenchmarkApplyMined(b *testing.B) {
	for _, bm := range []struct {
		name string
		gap  time.Duration
		line string
	}{
		{"hidden", 10 * time.Millisecond, "user %s opened page /shop/%s/%s after 1234 ms"},
		{"ever others", 10 * time.Millisecond, "%s is %s to %s"},
		{"ever others, 10 lines a second", 10 * time.Second, "%s is %s to %s"},
	} {
		for _, cfg := range []fold.Config{{}, mined} {
			b.Run(bm.name+"/"+cfg.Rules.Default.Noise.String(), func(b *testing.B) {
				f := fold.New(cfg)
				messages := make([]fold.Message, 1000)
				for i := range messages {
					var all []telemetry.Event
					for j := range 100 {
						n := 100*i + j
						all = append(all, logged(telemetry.LevelInfo, fmt.Sprintf(bm.line, word(n), word(7*n), word(31*n))))
					}
					messages[i] = events(all...)
				}
				seq, now := uint64(0), start
				b.ReportAllocs()
				for b.Loop() {
					m := messages[seq%uint64(len(messages))]
					seq++
					now = now.Add(bm.gap)
					m.Seq, m.Time = seq, now
					f.Apply(m)
				}
				b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

// word spells a number in letters.
func word(n int) string {
	var b []byte
	for ; n > 0 || len(b) == 0; n /= 20 {
		b = append(b, "bcdfghjklmnpqrstvwxz"[n%20])
	}
	return string(b)
}
