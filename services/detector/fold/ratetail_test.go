package fold_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/rules"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func judgedBy(by rules.Anomaly) fold.Config {
	return fold.Config{Rules: rules.Table{Default: rules.Set{Anomaly: by}}}
}

func scriptBy(by rules.Anomaly) *script { return &script{fold: fold.New(judgedBy(by))} }

// burst logs n errors, 50 ms apart.
func (s *script) burst(at time.Duration, n int) {
	for i := range n {
		s.at(at+time.Duration(i)*50*time.Millisecond, errorsLogged(1))
	}
}

// ticks lets time pass by messages of nothing.
func (s *script) ticks(from, to time.Duration) {
	for ; from <= to; from += time.Second {
		s.at(from, fold.Message{})
	}
}

// anomalies are those of alerts, as "at: title", ends with what they end.
func anomalies(alerts []alert.Alert) (list []string) {
	titles := map[string]string{}
	for _, a := range alerts {
		titles[a.ID] = a.Title
		if a.Category != alert.Anomaly {
			continue
		}
		text := fmt.Sprintf("%s: %s", a.Timestamp.Sub(start).Truncate(time.Second), a.Title)
		if a.Resolves != "" {
			text += " <- " + titles[a.Resolves]
		}
		list = append(list, text)
	}
	return list
}

// explained is what anomalies say beside their titles.
func explained(alerts []alert.Alert) (list []string) {
	for _, a := range alerts {
		if a.Category == alert.Anomaly {
			list = append(list, fmt.Sprint(a.Detail, " ", a.Context))
		}
	}
	return list
}

const (
	spikeTitle  = "Error spike in logs: far more than expected"
	spikeEnd    = "Resolved: Error spike in logs <- " + spikeTitle
	driftTitle  = "Errors in logs have drifted upwards"
	recursTitle = "Error burst in logs recurs by a schedule"
	recurring   = "bursts that recur are told as that, once"
	ratioTitle  = "Error spike in logs: more than 3x the rolling average"
	ratioEnd    = "Resolved: Error spike in logs <- " + ratioTitle
)

// rateTail are timelines by the rule rate-tail, and what is told of them.
var rateTail = []struct {
	name string
	play func(s *script)
	want []string
}{
	{"a spike and its end", func(s *script) {
		s.at(0, elsewhere())
		s.at(0, errorsLogged(1))
		s.burst(5*time.Minute, 30)
		s.ticks(5*time.Minute+2*time.Second, 6*time.Minute)
	}, []string{"5m0s: " + spikeTitle, "5m11s: " + spikeEnd}},
	{"an app that is new", func(s *script) {
		s.burst(0, 12)
		s.ticks(time.Second, time.Minute)
	}, nil},
	{recurring, func(s *script) {
		s.at(0, errorsLogged(1))
		for i := range time.Duration(6) {
			s.burst((i+1)*5*time.Minute, 20)
			s.ticks((i+1)*5*time.Minute+2*time.Second, (i+1)*5*time.Minute+30*time.Second)
		}
		s.burst(33*time.Minute, 20)
		s.ticks(33*time.Minute+2*time.Second, 34*time.Minute)
	}, []string{"5m0s: " + spikeTitle, "5m10s: " + spikeEnd, "10m0s: " + spikeTitle, "10m10s: " + spikeEnd, "15m0s: " + recursTitle, "33m0s: " + spikeTitle, "33m10s: " + spikeEnd}},
	{"a drift, which stays", func(s *script) {
		for at := time.Duration(0); at < 6*time.Hour; at += 5 * time.Second {
			n := 1
			if at > time.Hour {
				n = 3
			}
			s.at(at, errorsLogged(n))
		}
	}, []string{"1h1m40s: " + driftTitle, "4h1m40s: Errors in logs stay higher, which is usual now <- " + driftTitle}},
}

// TestRateTail plays each timeline undisturbed and with restarts, in the open and
// in the shadow of the contract's rule.
func TestRateTail(t *testing.T) {
	for _, tt := range rateTail {
		t.Run(tt.name, func(t *testing.T) {
			open, shadow := scriptBy(rules.RateTail), scriptBy(rules.Both)
			tt.play(open)
			tt.play(shadow)
			if got := anomalies(open.alerts); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			checkResolutions(t, open.alerts)
			if n := open.fold.Stats().Recurring; (n > 0) != (tt.name == recurring) {
				t.Errorf("%d bursts were held back", n)
			}
			if got := anomalies(shadow.shadow); !slices.Equal(got, tt.want) {
				t.Errorf("in the shadow\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			checkResolutions(t, shadow.shadow)
			if len(open.shadow) > 0 {
				t.Errorf("in the shadow of nothing: %v", open.shadow)
			}
		})
	}
}

// play draws a log of errors and of what else there is, with bursts and silences.
func play(t *rapid.T) (at []time.Duration, messages []fold.Message) {
	now := time.Duration(0)
	for range rapid.IntRange(1, 60).Draw(t, "messages") {
		now += time.Duration(rapid.SampledFrom([]int{0, 1, 100, 900, 5000, 61_000, 300_000, 3_700_000}).Draw(t, "ms")) * time.Millisecond
		if !rapid.Bool().Draw(t, "a burst") {
			at, messages = append(at, now), append(messages, message(t))
			continue
		}
		n, bad := rapid.IntRange(5, 60).Draw(t, "errors"), rapid.Bool().Draw(t, "requests")
		app := rapid.SampledFrom([]string{"web", "shop"}).Draw(t, "app")
		for range n {
			e := logged(telemetry.LevelError, "burst")
			if bad {
				e = requested("GET", "/x", 500)
			}
			e.App = app
			at, messages = append(at, now), append(messages, events(e))
			now += 70 * time.Millisecond
		}
	}
	return at, messages
}

// TestShadowChangesNothing: with rate-tail in the shadow, the same is told with the
// same ids as without it, and what is told in the shadow is what rate-tail tells by
// itself.
func TestShadowChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ratio, both, tail := scriptBy(rules.Ratio3x), scriptBy(rules.Both), scriptBy(rules.RateTail)
		at, messages := play(t)
		for i := range at {
			for _, s := range []*script{ratio, both, tail} {
				s.at(at[i], messages[i])
			}
			if rapid.IntRange(0, 20).Draw(t, "restart") == 0 {
				both.restart(t, judgedBy(rules.Both))
			}
		}
		if !reflect.DeepEqual(ratio.alerts, both.alerts) {
			t.Fatalf("alone\n%s\nwith a shadow\n%s", ratio.titles(), both.titles())
		}
		if len(ratio.shadow)+len(tail.shadow) > 0 {
			t.Fatalf("in the shadow of nothing: %v %v", ratio.shadow, tail.shadow)
		}
		if got, want := anomalies(both.shadow), anomalies(tail.alerts); !slices.Equal(got, want) {
			t.Fatalf("in the shadow\n%s\nalone\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got, want := explained(both.shadow), explained(tail.alerts); !slices.Equal(got, want) {
			t.Fatalf("in the shadow\n%s\nalone\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		ids := map[string]bool{}
		for _, a := range slices.Concat(both.alerts, both.shadow) {
			if ids[a.ID] || len(a.ID) != 26 {
				t.Fatalf("id %q twice", a.ID)
			}
			ids[a.ID] = true
		}
	})
}

// TestRulesChange: what goes on when the rules of an app change with a restart is
// told to be over: when it is where the rule still counts, and at once where not.
func TestRulesChange(t *testing.T) {
	spike := func(s *script) {
		s.at(0, errorsLogged(1))
		s.burst(5*time.Minute, 30)
	}
	for _, tt := range []struct {
		from, to     rules.Anomaly
		open, shadow []string
	}{
		{rules.Ratio3x, rules.RateTail, []string{"5m0s: " + ratioTitle, "5m2s: " + ratioEnd}, nil},
		{rules.Ratio3x, rules.Both, []string{"5m0s: " + ratioTitle, "5m12s: " + ratioEnd}, nil},
		{rules.RateTail, rules.Ratio3x, []string{"5m0s: " + spikeTitle, "5m2s: " + spikeEnd}, nil},
		{rules.RateTail, rules.Both, []string{"5m0s: " + spikeTitle, "5m11s: " + spikeEnd}, nil},
		{rules.Both, rules.RateTail, []string{"5m0s: " + ratioTitle, "5m2s: " + ratioEnd}, []string{"5m0s: " + spikeTitle, "5m11s: " + spikeEnd}},
		{rules.Both, rules.Ratio3x, []string{"5m0s: " + ratioTitle, "5m12s: " + ratioEnd}, []string{"5m0s: " + spikeTitle, "5m2s: " + spikeEnd}},
	} {
		t.Run(fmt.Sprint(tt.from, " to ", tt.to), func(t *testing.T) {
			s := scriptBy(tt.from)
			spike(s)
			s.restart(t, judgedBy(tt.to))
			s.ticks(5*time.Minute+2*time.Second, 10*time.Minute)
			s.restart(t, judgedBy(tt.to))
			if got := anomalies(s.alerts); !slices.Equal(got, tt.open) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.open, "\n"))
			}
			if got := anomalies(s.shadow); !slices.Equal(got, tt.shadow) {
				t.Errorf("in the shadow\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.shadow, "\n"))
			}
			checkResolutions(t, s.alerts)
			// The new rule counts from the change on.
			s.alerts = nil
			s.burst(15*time.Minute, 30)
			want := ratioTitle
			if tt.to == rules.RateTail {
				want = spikeTitle
			}
			if got := anomalies(s.alerts); !slices.Equal(got, []string{"15m0s: " + want}) {
				t.Errorf("the next spike: %v", got)
			}
		})
	}
}

// TestUpgradeToRateTail: a snapshot of a version before it is gone on with by the
// new rule. That of version 6 has a spike that went on by the contract's.
func TestUpgradeToRateTail(t *testing.T) {
	for _, version := range []string{"version4", "version6"} {
		state, err := os.ReadFile("testdata/" + version + ".snapshot")
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range []rules.Anomaly{rules.RateTail, rules.Both} {
			s := scriptBy(by)
			s.seq = 1000
			if err := s.fold.Restore(state); err != nil {
				t.Fatal(err)
			}
			s.burst(20*time.Minute, 30)
			s.ticks(20*time.Minute+2*time.Second, 21*time.Minute)
			told := anomalies(s.alerts)
			if by == rules.Both {
				told = anomalies(s.shadow)
			}
			want := []string{"20m0s: " + spikeTitle, "20m11s: " + spikeEnd}
			if version == "version6" && by == rules.RateTail {
				want = slices.Insert(want, 0, "20m0s: Resolved: Error spike in logs <- ")
			}
			if !slices.Equal(told, want) {
				t.Errorf("%s, %v: %v", version, by, told)
			}
		}
	}
}

// TestEachAppByItsRules: of two apps, each is judged by its own.
func TestEachAppByItsRules(t *testing.T) {
	s := &script{fold: fold.New(fold.Config{Rules: rules.Table{Apps: map[string]rules.Set{"shop": {Anomaly: rules.RateTail}}}})}
	both := errorsLogged(1).Events
	both = append(both, both[0])
	both[1].App = "shop"
	s.at(0, events(both...))
	for i := range 30 {
		s.at(5*time.Minute+time.Duration(i)*50*time.Millisecond, events(both...))
	}
	titles := map[string]string{}
	for _, a := range s.alerts {
		if a.Category == alert.Anomaly {
			titles[a.App] += a.Title
		}
	}
	if titles["web"] != ratioTitle || titles["shop"] != spikeTitle {
		t.Errorf("%v", titles)
	}
}

// BenchmarkApplyErrors is a log of nothing but errors, by each rule: 50 apps, of
// which each has 200 errors a second.
func BenchmarkApplyErrors(b *testing.B) {
	for _, by := range []rules.Anomaly{rules.Ratio3x, rules.RateTail, rules.Both} {
		b.Run(by.String(), func(b *testing.B) {
			batch := slices.Repeat([]telemetry.Event{logged(telemetry.LevelError, "boom")}, 100)
			f := fold.New(judgedBy(by))
			f.Apply(fold.Message{Seq: 1, Time: start, Noise: &query.NoiseRequest{Action: query.NoiseList}})
			b.ReportAllocs()
			seq, now := uint64(1), start
			for b.Loop() {
				seq++
				now = now.Add(10 * time.Millisecond)
				for i := range batch {
					batch[i].App = apps[seq%50]
				}
				f.Apply(fold.Message{Seq: seq, Time: now, Events: batch})
			}
			b.ReportMetric(float64(b.N)*float64(len(batch))/b.Elapsed().Seconds(), "events/s")
		})
	}
}

var apps = func() (names [50]string) {
	for i := range names {
		names[i] = fmt.Sprint("app", i)
	}
	return names
}()
