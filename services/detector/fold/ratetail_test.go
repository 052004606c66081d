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
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func judgedBy(by ruleset.Anomaly) fold.Config {
	return fold.Config{Rules: ruleset.Table{Default: ruleset.Set{Anomaly: by}}}
}

func scriptBy(by ruleset.Anomaly) *script { return &script{fold: fold.New(judgedBy(by))} }

// burst logs n errors, 50 ms apart.
func (s *script) burst(at time.Duration, n int) {
	for i := range n {
		s.at(at+time.Duration(i)*50*time.Millisecond, errorsLogged(1))
	}
}

// ticks lets time pass by empty messages, one a second.
func (s *script) ticks(from, to time.Duration) {
	for ; from <= to; from += time.Second {
		s.at(from, fold.Message{})
	}
}

// anomalies lists the anomalies among alerts as "time: title", resolutions and revisions with
// the title of the other alert.
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
		if a.Revises != "" {
			text += " -> " + titles[a.Revises]
		}
		list = append(list, text)
	}
	return list
}

const (
	spikeTitle  = "Error spike in logs: far more than expected"
	spikeEnd    = "Resolved: Error spike in logs <- " + spikeTitle
	driftTitle  = "Errors in logs have drifted upwards"
	recursTitle = "Error burst in logs recurs by a schedule"
	recursEnd   = "Resolved: Error burst in logs <- " + recursTitle
	recurring   = "bursts that recur are reported as that"
	ratioTitle  = "Error spike in logs: more than 3x the rolling average"
	ratioEnd    = "Resolved: Error spike in logs <- " + ratioTitle
)

// rateTail has timelines by the rule rate-tail, with the alerts that they raise.
var rateTail = []struct {
	name string
	play func(s *script)
	want []string
}{
	{"a spike and its end", func(s *script) {
		s.at(0, elsewhere())
		s.at(0, errorsLogged(1))
		s.burst(5*time.Minute, 30)
		s.ticks(5*time.Minute+2*time.Second, 8*time.Minute)
	}, []string{"5m0s: " + spikeTitle, "7m11s: " + spikeEnd}},
	{"an app that is new", func(s *script) {
		s.burst(0, 12)
		s.ticks(time.Second, time.Minute)
	}, nil},
	{recurring, func(s *script) {
		s.at(0, errorsLogged(1))
		for i := range time.Duration(6) {
			s.burst((i+1)*5*time.Minute, 20)
			s.ticks((i+1)*5*time.Minute+2*time.Second, (i+1)*5*time.Minute+150*time.Second)
		}
		s.burst(33*time.Minute, 20)
		s.ticks(33*time.Minute+2*time.Second, 36*time.Minute)
	}, []string{
		"5m0s: " + spikeTitle, "7m10s: " + spikeEnd, "10m0s: " + spikeTitle, "12m10s: " + spikeEnd,
		"15m0s: " + spikeTitle, "17m10s: " + spikeEnd, "20m0s: " + recursTitle, "22m10s: " + recursEnd,
		"25m0s: " + recursTitle, "27m10s: " + recursEnd, "30m0s: " + recursTitle, "32m10s: " + recursEnd, "33m0s: " + spikeTitle, "35m10s: " + spikeEnd,
	}},
	{"a burst that recurs and goes on", func(s *script) {
		s.at(0, errorsLogged(1))
		for i := range time.Duration(4) {
			s.burst((i+1)*5*time.Minute, 20)
			s.ticks((i+1)*5*time.Minute+2*time.Second, (i+1)*5*time.Minute+150*time.Second)
		}
		s.burst(25*time.Minute, 1600)
		s.ticks(26*time.Minute+30*time.Second, 29*time.Minute)
	}, []string{
		"5m0s: " + spikeTitle, "7m10s: " + spikeEnd, "10m0s: " + spikeTitle, "12m10s: " + spikeEnd,
		"15m0s: " + spikeTitle, "17m10s: " + spikeEnd, "20m0s: " + recursTitle, "22m10s: " + recursEnd,
		"25m0s: " + recursTitle, "25m2s: " + spikeTitle + " -> " + recursTitle, "28m29s: Resolved: Error spike in logs <- " + recursTitle,
	}},
	{"a drift, which stays", func(s *script) {
		for at := time.Duration(0); at < 6*time.Hour; at += 5 * time.Second {
			n := 1
			if at > time.Hour {
				n = 3
			}
			s.at(at, errorsLogged(n))
		}
	}, []string{"1h1m40s: " + driftTitle, "4h1m40s: Error rate in logs stays higher, now treated as normal <- " + driftTitle}},
}

// TestRateTail plays each timeline.
func TestRateTail(t *testing.T) {
	for _, tt := range rateTail {
		t.Run(tt.name, func(t *testing.T) {
			s := scriptBy(ruleset.RateTail)
			tt.play(s)
			if got := anomalies(s.alerts); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			checkResolutions(t, s.alerts)
			if n, want := s.fold.Stats().Recurring, strings.Contains(tt.name, "recur"); (n > 0) != want {
				t.Errorf("%d bursts recurred, want some: %v", n, want)
			}
		})
	}
}

// TestRulesChange checks that a change of the rules with a restart neither raises nor
// resolves anything: what continues is ended by the rule that raised it, when it is over,
// and a burst that continues is not reported twice.
func TestRulesChange(t *testing.T) {
	for _, tt := range []struct {
		from, to ruleset.Anomaly
		want     []string
		next     string
	}{
		{ruleset.Ratio3x, ruleset.RateTail, []string{"5m0s: " + ratioTitle, ratioEnd}, spikeTitle},
		{ruleset.Ratio3x, ruleset.Auto, []string{"5m0s: " + ratioTitle, ratioEnd}, spikeTitle},
		{ruleset.RateTail, ruleset.Ratio3x, []string{"5m0s: " + spikeTitle, spikeEnd}, ratioTitle},
		{ruleset.RateTail, ruleset.Auto, []string{"5m0s: " + spikeTitle, spikeEnd}, spikeTitle},
		{ruleset.Auto, ruleset.RateTail, []string{"5m0s: " + ratioTitle, ratioEnd}, spikeTitle},
		{ruleset.Auto, ruleset.Ratio3x, []string{"5m0s: " + ratioTitle, ratioEnd}, ratioTitle},
	} {
		t.Run(fmt.Sprint(tt.from, " to ", tt.to), func(t *testing.T) {
			s := scriptBy(tt.from)
			s.at(0, errorsLogged(1))
			s.burst(5*time.Minute, 30)
			s.restart(t, judgedBy(tt.to))
			s.burst(5*time.Minute+1500*time.Millisecond, 10) // it continues
			s.restart(t, judgedBy(tt.to))
			s.ticks(5*time.Minute+2*time.Second, 10*time.Minute)
			s.restart(t, judgedBy(tt.to))
			if got := findings(s.alerts); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			checkResolutions(t, s.alerts)
			// The new rule counts from the change on.
			s.alerts = nil
			s.at(14*time.Minute, errorsLogged(1))
			s.burst(15*time.Minute, 30)
			if got, want := findings(s.alerts), []string{"15m0s: " + tt.next}; !slices.Equal(got, want) {
				t.Errorf("the next spike: got %q, want %q", got, want)
			}
		})
	}
}

// TestRulesChangeInSteadyErrors checks that errors that come as before are no spike for a
// rule that a restart brings in, and that it finds one soon after.
func TestRulesChangeInSteadyErrors(t *testing.T) {
	for _, change := range [][2]ruleset.Anomaly{{ruleset.Ratio3x, ruleset.RateTail}, {ruleset.RateTail, ruleset.Ratio3x}, {ruleset.Auto, ruleset.Ratio3x}, {ruleset.Ratio3x, ruleset.Auto}} {
		s := scriptBy(change[0])
		steady := func(to time.Duration) {
			at := time.Duration(s.seq) * 50 * time.Millisecond
			for ; at < to; at += 50 * time.Millisecond { // 20 a second
				s.at(at, errorsLogged(1))
			}
		}
		steady(12 * time.Minute)
		s.alerts = nil
		s.restart(t, judgedBy(change[1]))
		steady(20 * time.Minute)
		raised := func() (titles []string) {
			for _, a := range s.alerts {
				if a.Category == alert.Anomaly && a.Resolves == "" {
					titles = append(titles, a.Title)
				}
			}
			return titles
		}
		if got := raised(); len(got) != 0 {
			t.Errorf("%v to %v: got %q, want none", change[0], change[1], got)
		}
		for range 1000 {
			s.at(20*time.Minute, errorsLogged(1))
		}
		if got := raised(); len(got) != 1 {
			t.Errorf("%v to %v, then 1000 errors more: got %q, want one spike", change[0], change[1], got)
		}
	}
}

// TestUpgradeToRateTail continues by another rule from a snapshot of a version without it.
// In that of version 6 a spike continues: the rule that found it ends it.
func TestUpgradeToRateTail(t *testing.T) {
	for _, version := range []string{"version4", "version6"} {
		state, err := os.ReadFile("testdata/" + version + ".snapshot")
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range []ruleset.Anomaly{ruleset.RateTail, ruleset.Auto} {
			s := scriptBy(by)
			s.seq = 1000
			if err := s.fold.Restore(state); err != nil {
				t.Fatal(err)
			}
			s.burst(20*time.Minute, 30)
			s.ticks(20*time.Minute+2*time.Second, 25*time.Minute)
			want := []string{"20m0s: " + spikeTitle, spikeEnd}
			if version == "version6" {
				want = slices.Insert(want, 0, "Resolved: Error spike in logs <- ")
			}
			if reported := findings(s.alerts); !slices.Equal(reported, want) {
				t.Errorf("%s, %v: got %q, want %q", version, by, reported, want)
			}
		}
	}
}

// TestEachAppByItsRules checks that each of two apps has its own rules.
func TestEachAppByItsRules(t *testing.T) {
	s := &script{fold: fold.New(fold.Config{Rules: ruleset.Table{Apps: map[string]ruleset.Set{"shop": {Anomaly: ruleset.RateTail}}}})}
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
		t.Errorf("anomalies = %v, want %q of web and %q of shop", titles, ratioTitle, spikeTitle)
	}
}

// BenchmarkApplyErrors measures a log of errors, by each rule: 50 apps with 200 errors a
// second each.
func BenchmarkApplyErrors(b *testing.B) {
	for _, by := range []ruleset.Anomaly{ruleset.Ratio3x, ruleset.RateTail, ruleset.Auto} {
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
