package fold_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func errorsLogged(n int) fold.Message {
	return events(slices.Repeat([]telemetry.Event{logged(telemetry.LevelError, "boom")}, n)...)
}

func memory(used float64) fold.Message {
	return events(telemetry.Event{Kind: telemetry.KindMemory, App: "web", Memory: &telemetry.Memory{UsedBytes: used, LimitBytes: 100}})
}

func built(status, commit string) fold.Message {
	return fold.Message{CI: &ci.Result{Status: status, Source: ci.SourceCustom, Ref: "main", Commit: commit, Name: "build"}}
}

// elsewhere returns an event of another app, which raises no alert.
func elsewhere() fold.Message {
	e := logged(telemetry.LevelInfo, "hello")
	e.App = "shop"
	return events(e)
}

type step struct {
	at time.Duration
	m  fold.Message
}

// ends lists the alerts as "title", and resolutions as "title <- titles of the resolved".
func (s *script) ends() (list []string) {
	titles := map[string]string{}
	for _, a := range s.alerts {
		titles[a.ID] = a.Title
		text := a.Title
		if a.Resolves != "" {
			text += " <- " + cmp.Or(titles[a.Resolves], "nothing")
		}
		for _, id := range a.AlsoResolves {
			text += " + " + cmp.Or(titles[id], "nothing")
		}
		list = append(list, text)
	}
	return list
}

var resolutions = []struct {
	name  string
	steps []step
	want  []string
}{
	{"regression", []step{
		{0, events(loaded("/cart", 1000))},
		{time.Second, events(loaded("/cart", 2000))},
		{2 * time.Second, events(loaded("/", 1000))},
		{3 * time.Second, events(loaded("/cart", 1000))},
		{4 * time.Second, events(loaded("/cart", 1000))},
	}, []string{"LCP regressed 100% on /cart", "Resolved: LCP regressed on /cart <- LCP regressed 100% on /cart"}},

	{"a spike, ended by a later message", []step{
		{0, errorsLogged(5)},
		{10 * time.Second, elsewhere()},
		// 120 s after the spike calmed
		{129_999 * time.Millisecond, elsewhere()},
		{130 * time.Second, elsewhere()},
		{131 * time.Second, elsewhere()},
	}, []string{
		"New error: boom", "Error spike in logs: more than 3x the rolling average",
		"Resolved: Error spike in logs <- Error spike in logs: more than 3x the rolling average",
	}},

	{"a spike, ended by a message that cannot be decoded", []step{{0, errorsLogged(5)}, {3 * time.Minute, fold.Message{}}}, []string{
		"New error: boom", "Error spike in logs: more than 3x the rolling average",
		"Resolved: Error spike in logs <- Error spike in logs: more than 3x the rolling average",
	}},

	{"a spike ends before the next begins", []step{{0, errorsLogged(5)}, {3 * time.Minute, errorsLogged(6)}, {6 * time.Minute, elsewhere()}}, []string{
		"New error: boom", "Error spike in logs: more than 3x the rolling average",
		"Resolved: Error spike in logs <- Error spike in logs: more than 3x the rolling average",
		"Error spike in logs: more than 3x the rolling average",
		"Resolved: Error spike in logs <- Error spike in logs: more than 3x the rolling average",
	}},

	{"a spike that returns within 120 s is the same", []step{{0, errorsLogged(5)}, {100 * time.Second, errorsLogged(9)}, {229 * time.Second, elsewhere()}, {230 * time.Second, elsewhere()}}, []string{
		"New error: boom", "Error spike in logs: more than 3x the rolling average",
		"Resolved: Error spike in logs <- Error spike in logs: more than 3x the rolling average",
	}},

	{"a spike of errors that are hidden now", []step{
		{0, errorsLogged(5)},
		{time.Second, fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseAdd, Pattern: "boom", Kind: telemetry.KindLog}}},
		{131 * time.Second, errorsLogged(5)},
	}, []string{
		"New error: boom", "Error spike in logs: more than 3x the rolling average",
		"Resolved: Error spike in logs <- Error spike in logs: more than 3x the rolling average",
	}},

	{"memory", []step{{0, memory(80)}, {1, memory(95)}, {2, memory(80)}, {3, memory(10)}}, []string{
		"Memory reached 75% of its limit", "Memory reached 90% of its limit", "Memory reached 75% of its limit",
		"Memory is back to normal <- Memory reached 90% of its limit + Memory reached 75% of its limit + Memory reached 75% of its limit",
	}},

	{"a circuit", []step{{0, circuit("db", "open")}, {1, circuit("db", "half_open")}, {2, circuit("mail", "open")}, {3, circuit("db", "closed")}}, []string{
		"Circuit db is open", "Circuit db is half open", "Circuit mail is open", "Circuit db is closed again <- Circuit db is open + Circuit db is half open",
	}},

	{"CI", []step{{0, built("failure", "a")}, {1, built("failure", "a")}, {2, built("success", "b")}, {3, built("success", "b")}, {4, built("success", "c")}}, []string{
		"CI failure: build on main", "CI failure: build on main", "CI success: build on main <- CI failure: build on main",
		"CI success: build on main <- CI failure: build on main", "CI success: build on main",
	}},

	{"CI, two red commits", []step{{0, built("failure", "a")}, {1, built("error", "b")}, {2, built("success", "c")}, {3, built("success", "c")}}, []string{
		"CI failure: build on main", "CI error: build on main", "CI success: build on main <- CI error: build on main + CI failure: build on main",
		"CI success: build on main <- CI error: build on main + CI failure: build on main",
	}},

	{"an external alert", []step{{0, raised("firing", "1")}, {1, raised("resolved", "1")}}, []string{
		"Alert firing: Down on shop", "Alert resolved: Down on shop <- Alert firing: Down on shop",
	}},
}

// TestResolutions plays each timeline with and without a restart before every message.
func TestResolutions(t *testing.T) {
	for _, tt := range resolutions {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarts %v", tt.name, restarts), func(t *testing.T) {
				s := newScript()
				for _, step := range tt.steps {
					if restarts {
						s.restart(t, fold.Config{})
					}
					s.at(step.at, step.m)
				}
				if got := s.ends(); !slices.Equal(got, tt.want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
				}
				checkResolutions(t, s.alerts)
			})
		}
	}
}

type fataler interface{ Fatalf(string, ...any) }

func (s *script) restart(t fataler, cfg fold.Config) {
	state, err := s.fold.Snapshot()
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	s.fold = fold.New(cfg)
	if err := s.fold.Restore(state); err != nil {
		t.Fatalf("restore: %v", err)
	}
}

// checkResolutions checks that only open alerts are resolved, and that a resolution has the
// app and, except for thresholds, the dedup key of the alert that it resolves.
func checkResolutions(t fataler, alerts []alert.Alert) {
	published, resolved := map[string]alert.Alert{}, map[string]bool{}
	for _, a := range alerts {
		published[a.ID] = a
		if a.Resolves == "" {
			continue
		}
		for _, id := range append([]string{a.Resolves}, a.AlsoResolves...) {
			begin, ok := published[id]
			if !ok || begin.App != a.App || begin.Category != a.Category || begin.IsResolution() {
				t.Fatalf("%q resolves %q, which is %+v (published: %v), want an earlier alert of its app and category", a.Title, id, begin, ok)
			}
			if resolved[id] && a.Revises == "" {
				t.Fatalf("%q resolves %q, which is resolved already, want an open alert", a.Title, id)
			}
			resolved[id] = true
		}
		begin := published[a.Resolves]
		if a.Severity != alert.Info || a.Source != begin.Source || a.CorrelationID != a.ID || a.Category != alert.Threshold && a.DedupKey != begin.DedupKey {
			t.Fatalf("resolution %+v, want severity info, an own correlation id, and source and dedup key of %+v", a, begin)
		}
	}
}

// TestResolutionInAStorm checks a page that is slow and fast in turn: its regressions and
// their ends are bounded, suppressed ends are not counted, and its last state is reported.
func TestResolutionInAStorm(t *testing.T) {
	s := newScript()
	for i := range 5 {
		s.at(0, events(loaded("/cart", 1000+float64(i))))
	}
	for i := range 40 {
		s.at(time.Duration(i)*10*time.Millisecond, events(loaded("/cart", []float64{3000, 1000}[min(i%3, 1)])))
	}
	if len(s.alerts) != 20 {
		t.Fatalf("%d alerts, want 20\n%s", len(s.alerts), s.titles())
	}
	for i, a := range s.alerts {
		if a.Count != 0 || (a.Resolves != "") != (i%2 == 1) {
			t.Errorf("alert %d: count, resolves = %d, %q, want 0, and every second one a resolution", i, a.Count, a.Resolves)
		}
	}
	s.at(20*time.Second, events(loaded("/cart", 9000)))
	s.at(21*time.Second, events(loaded("/cart", 1000)))
	if a := s.alerts; len(a) != 22 || a[20].Count < 2 || a[21].Resolves != a[20].ID || a[21].Count != 0 {
		t.Errorf("got\n%s\nwant 22, the last two a regression that counts the suppressed ones, and its end without a count", s.titles())
	}
	checkResolutions(t, s.alerts)
}

// TestEndAfterAStorm checks that repetitions of an alert do not suppress its resolution.
func TestEndAfterAStorm(t *testing.T) {
	for _, tt := range []struct {
		name  string
		again fold.Message
		end   fold.Message
	}{
		{"CI", built("failure", "a"), built("success", "b")},
		{"a regression", events(loaded("/cart", 9000)), events(loaded("/cart", 1000))},
		{"an external alert", raised("firing", "1"), raised("resolved", "1")},
	} {
		s := newScript()
		for i := range 10 {
			s.at(0, events(loaded("/cart", 1000+float64(i))))
		}
		for i := range 15 {
			s.at(time.Second+time.Duration(i)*time.Millisecond, tt.again)
		}
		if s.at(2*time.Second, tt.end); len(s.alerts) != 11 || s.alerts[10].Resolves == "" {
			t.Errorf("%s: got\n%s\nwant 11 alerts, the last a resolution", tt.name, s.titles())
		}
		checkResolutions(t, s.alerts)
	}
}

// TestEndsAreBounded checks that revisions of a resolution are bounded.
func TestEndsAreBounded(t *testing.T) {
	s := newScript()
	s.at(0, built("failure", "a"))
	for i := range 15 {
		s.at(time.Duration(i)*time.Millisecond, built("success", "b"))
	}
	if len(s.alerts) != 11 || s.fold.Stats().Suppressed != 5 {
		t.Errorf("%d alerts, %d suppressed, want 11, 5", len(s.alerts), s.fold.Stats().Suppressed)
	}
}

// TestBackToNormalAfterAStorm checks that a suppressed return to normal is published once, with
// the next reading for which there is room, and counts what was suppressed.
func TestBackToNormalAfterAStorm(t *testing.T) {
	for _, tt := range []struct {
		name           string
		bad, worse, ok fold.Message
	}{
		{"memory", memory(80), memory(95), memory(10)},
		{"a circuit", circuit("db", "half_open"), circuit("db", "open"), circuit("db", "closed")},
	} {
		for _, restarts := range []bool{false, true} {
			s := newScript()
			play := func(at time.Duration, m fold.Message, allowed int) {
				t.Helper()
				if restarts {
					s.restart(t, fold.Config{})
				}
				if published := s.at(at, m).Alerts; len(published) != allowed {
					t.Errorf("%s, restarts %v, at %v: %d alerts, want %d", tt.name, restarts, at, len(published), allowed)
				}
			}
			const ms = time.Millisecond
			play(0, tt.worse, 1)
			play(1000*ms, tt.ok, 1)
			for i := range time.Duration(9) {
				play(1001*ms+i*ms, tt.worse, 1)
				play(1001*ms+i*ms, tt.ok, 1)
			}
			play(10_000*ms, tt.worse, 1) // the first of its key is 10 s past
			play(10_500*ms, tt.ok, 0)
			play(10_600*ms, tt.ok, 0)
			play(10_700*ms, tt.bad, 1)
			play(10_800*ms, tt.ok, 0)
			play(10_900*ms, tt.ok, 0)
			play(11_000*ms, tt.ok, 1)
			play(11_100*ms, tt.ok, 0)
			n := len(s.alerts)
			worse, bad, end := s.alerts[n-3], s.alerts[n-2], s.alerts[n-1]
			if end.Resolves != worse.ID || !slices.Equal(end.AlsoResolves, []string{bad.ID}) || end.Count != 2 {
				t.Errorf("%s: resolves, also resolves, count = %q, %q, %d, want %q, [%q], 2", tt.name, end.Resolves, end.AlsoResolves, end.Count, worse.ID, bad.ID)
			}
			if got := s.fold.Stats().Suppressed; got != 2 && !restarts {
				t.Errorf("%s: %d alerts suppressed, want 2", tt.name, got)
			}
			checkResolutions(t, s.alerts)
		}
	}
}

// TestResolutionIsNotCorrelated checks that the end of a regression is not correlated with a
// spike that begins just after it.
func TestResolutionIsNotCorrelated(t *testing.T) {
	s := newScript()
	s.at(0, events(loaded("/cart", 1000)))
	s.at(time.Second, events(loaded("/cart", 2000)))
	s.at(30*time.Second, events(loaded("/cart", 1000)))
	s.at(31*time.Second, errorsLogged(5))
	for _, a := range s.alerts {
		if a.CorrelationID != a.ID {
			t.Errorf("%s: correlation id = %q, want its own id, %q", a.Title, a.CorrelationID, a.ID)
		}
	}
	if len(s.alerts) != 4 || len(alert.Digest(s.alerts)) != 4 {
		t.Errorf("%d alerts, %d in the digest, want 4, 4\n%s", len(s.alerts), len(alert.Digest(s.alerts)), s.titles())
	}
}

// TestSpikesAreBounded checks that past the bound the oldest spike never ends, and neither does
// one of an app that is forgotten or not tracked.
func TestSpikesAreBounded(t *testing.T) {
	spike := func(s *script, app string) {
		m := errorsLogged(5)
		for i := range m.Events {
			m.Events[i].App = app
		}
		s.at(0, m)
	}
	ended := func(s *script) (apps []string) {
		s.alerts = nil
		s.at(3*time.Minute, fold.Message{})
		for _, a := range s.alerts {
			apps = append(apps, a.App)
		}
		return apps
	}
	s := newScript()
	for i := range 101 {
		spike(s, fmt.Sprint("app", i))
	}
	s.restart(t, fold.Config{})
	if apps := ended(s); len(apps) != 100 || apps[0] != "app1" || apps[99] != "app100" {
		t.Errorf("the spikes of %d apps ended, %v, want those of app1 to app100", len(apps), apps)
	}
	small := &script{fold: fold.New(fold.Config{MaxApps: 2})}
	for i := range 3 {
		spike(small, fmt.Sprint("app", i))
	}
	small.at(0, elsewhere())
	if apps := ended(small); !slices.Equal(apps, []string{"app0", "app1"}) {
		t.Errorf("the spikes of %v ended, want those of app0 and app1", apps)
	}
	for i := range 3 {
		spike(s, fmt.Sprint("app", i))
	}
	state, err := s.fold.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	s.fold = fold.New(fold.Config{MaxApps: 2})
	if err := s.fold.Restore(state); err != nil {
		t.Errorf("Restore with room for fewer apps: %v, want no error", err)
	}
}

// BenchmarkApplyInSpikes is BenchmarkApply with as many open spikes as possible.
func BenchmarkApplyInSpikes(b *testing.B) {
	f := fold.New(fold.Config{})
	seq := uint64(0)
	for i := range 100 {
		m := errorsLogged(5)
		for j := range m.Events {
			m.Events[j].App = fmt.Sprint("app", i)
		}
		seq++
		m.Seq, m.Time = seq, start
		f.Apply(m)
	}
	batch := slices.Repeat([]telemetry.Event{logged(telemetry.LevelInfo, "tick")}, 100)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		f.Apply(fold.Message{Seq: seq, Time: start, Events: batch})
	}
}
