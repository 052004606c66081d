package fold_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// from returns a message of events of an app.
func from(app string, all ...telemetry.Event) fold.Message {
	for i := range all {
		all[i].App = app
	}
	return events(all...)
}

func tick() telemetry.Event { return logged(telemetry.LevelInfo, "tick") }

// TestManyApps checks which apps are tracked if there is room for three.
func TestManyApps(t *testing.T) {
	const hour = time.Hour
	for _, tt := range []struct {
		name string
		play func(s *script)
		want string // which of a to f are tracked
		not  int    // how many are not
	}{
		{"a new app replaces the newest one without history", func(s *script) {
			for i, app := range []string{"a", "b", "c", "d", "e"} {
				s.at(time.Duration(i)*time.Second, from(app, tick()))
			}
		}, "a b e", 2},
		{"several apps in one message", func(s *script) {
			all := []telemetry.Event{tick(), tick(), tick(), tick(), tick()}
			for i := range all {
				all[i].App = string(rune('a' + i))
			}
			s.at(0, events(all...))
		}, "a b e", 2},
		{"an alert is history", func(s *script) {
			s.at(0, from("a", tick()))
			s.at(1, from("b", tick()))
			s.at(2, from("c", logged(telemetry.LevelError, "boom")))
			s.at(3, from("d", tick()))
			s.at(4, from("e", tick()))
		}, "a c e", 2},
		{"an alert of another system is history", func(s *script) {
			s.at(0, from("a", tick()))
			s.at(1, from("b", tick()))
			s.at(2, from("c", tick()))
			m := raised("firing", "1")
			m.External[0].App = "c"
			s.at(3, m)
			s.at(4, from("d", tick()))
		}, "a c d", 1},
		{"events over more than 10 min are history", func(s *script) {
			s.at(0, from("a", tick()))
			s.at(time.Minute, from("b", tick()))
			s.at(2*time.Minute, from("c", tick()))
			s.at(11*time.Minute, from("b", tick())) // 10 min are not over 10 min
			s.at(12*time.Minute+time.Second, from("c", tick()))
			s.at(13*time.Minute, from("d", tick()))
		}, "a c d", 1},
		{"if all have history, a new app is not tracked", func(s *script) {
			for _, app := range []string{"a", "b", "c", "d", "e"} {
				s.at(0, from(app, logged(telemetry.LevelError, "boom")))
			}
			s.at(1, from("d", tick()))
		}, "a b c", 2},
		{"after 24 h without events history is lost", func(s *script) {
			for _, app := range []string{"a", "b", "c"} {
				s.at(0, from(app, logged(telemetry.LevelError, "boom")))
			}
			s.at(hour, from("a", tick()))
			s.at(24*hour-time.Second, from("d", tick()))
			s.at(24*hour, from("e", tick()))
			s.at(24*hour, from("f", tick()))
		}, "a e f", 1}, // d
		{"an app that was replaced can come back", func(s *script) {
			for _, app := range []string{"a", "b", "c", "d", "c"} {
				s.at(0, from(app, tick()))
			}
		}, "a b c", 1},
		{"an app that is not tracked is counted for 24 h", func(s *script) {
			for _, app := range []string{"a", "b", "c", "d"} {
				s.at(0, from(app, logged(telemetry.LevelError, "boom")))
			}
			for at := hour; at <= 24*hour; at += hour {
				s.at(at, from("a", tick()))
			}
		}, "a b c", 0},
	} {
		for _, restarts := range []bool{false, true} {
			cfg := fold.Config{MaxApps: 3}
			s := &script{fold: fold.New(cfg)}
			if restarts {
				s.before = func() { s.restart(t, cfg) }
			}
			tt.play(s)
			got := ""
			for _, app := range []string{"a", "b", "c", "d", "e", "f"} {
				if s.fold.Tracks(app) {
					got += " " + app
				}
			}
			if got != " "+tt.want || s.fold.NotTracked() != tt.not || s.fold.Stats().NotTracked != tt.not {
				t.Errorf("%s, restarts %v: got %s and %d not tracked, want %s and %d", tt.name, restarts, got, s.fold.NotTracked(), tt.want, tt.not)
			}
		}
	}
}

// TestForgottenAreNamed checks that the outcome names each app that was replaced.
func TestForgottenAreNamed(t *testing.T) {
	s := &script{fold: fold.New(fold.Config{MaxApps: 2})}
	var got []string
	for i := range 4 {
		got = append(got, s.at(0, from(fmt.Sprint("app", i), tick())).Forgotten...)
	}
	if want := []string{"app1", "app2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRealAppAmongMany plays an app with 20 loads and a known error, and then 1,100 other apps
// with one event each.
func TestRealAppAmongMany(t *testing.T) {
	s := &script{fold: fold.New(auto)}
	for i := range 20 {
		s.at(time.Duration(i)*10*time.Millisecond, events(loaded("/cart", 1000)))
	}
	s.at(time.Second, events(logged(telemetry.LevelError, "boom")))
	for post := range 11 {
		all := make([]telemetry.Event, 100)
		for i := range all {
			all[i] = tick()
			all[i].App = fmt.Sprintf("app%d-%d", post, i)
		}
		s.at(2*time.Second, events(all...))
	}
	s.alerts = nil
	s.at(3*time.Second, events(logged(telemetry.LevelError, "boom"), loaded("/cart", 5000)))
	if got, want := s.titles(), "warning regression: LCP regressed 400% on /cart (one load)"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if stats := s.fold.Stats(); stats.Apps != fold.DefaultApps || stats.NotTracked != 101 || stats.Evicted.Apps != 101 {
		t.Errorf("got %+v, want 1000 apps, 101 that were replaced", stats)
	}
}

// TestUntracked checks that an app that is not tracked raises network_errors, security and
// threshold.
func TestUntracked(t *testing.T) {
	cfg := fold.Config{MaxApps: 1}
	s := &script{fold: fold.New(cfg)}
	s.at(0, from("a", logged(telemetry.LevelError, "boom")))
	s.alerts = nil
	all := slices.Concat(
		[]telemetry.Event{requested("POST", "/api/users", 500), requested("GET", "/", 200), requested("GET", "/x", 503)},
		memory(95).Events, memory(10).Events, circuit("db", "open").Events,
		[]telemetry.Event{{Kind: telemetry.KindSecurity, Security: &telemetry.Security{Type: "csp"}}},
		[]telemetry.Event{logged(telemetry.LevelError, "boom"), loaded("/cart", 1000), loaded("/cart", 9000)},
		slices.Repeat([]telemetry.Event{clicked("#pay")}, 5), slices.Repeat([]telemetry.Event{logged(telemetry.LevelError, "boom")}, 50),
	)
	for i := range all {
		all[i].Release = "web@1"
	}
	s.at(time.Second, from("b", all...))
	want := "error network_errors: Server error: POST /api/users → 500\n" +
		"error network_errors: Server error: GET /x → 503\n" +
		"error threshold: Memory reached 90% of its limit\n" +
		"error threshold: Circuit db is open\n" +
		"warning security: Security: csp"
	if got := s.titles(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, a := range s.alerts {
		if a.App != "b" || a.Context["release"] != "web@1" {
			t.Errorf("got %s, %v; want app b, release web@1", a.App, a.Context)
		}
	}
	if stats := s.fold.Stats(); stats.NotTracked != 1 || stats.Untracked != uint64(len(all)) || stats.Apps != 1 {
		t.Errorf("got %+v, want %d events of 1 app that is not tracked", stats, len(all))
	}
	// A rule that a user added hides its requests as well.
	s.alerts = nil
	s.at(2*time.Second, fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseAdd, Pattern: "/api"}})
	s.at(3*time.Second, from("b", requested("POST", "/api/orders", 500)))
	if got := s.titles(); got != "" {
		t.Errorf("under a user's noise rule: got %s, want no alerts", got)
	}
}

// TestBytesTakeTheNewestFirst checks that an app with history outlives newcomers that
// take much memory.
func TestBytesTakeTheNewestFirst(t *testing.T) {
	s := &script{fold: fold.New(fold.Config{MaxBytes: 256 << 10})}
	s.at(0, from("real", logged(telemetry.LevelError, "boom")))
	for i := range 3000 {
		e := loaded(fmt.Sprintf("/page-%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676), 1000)
		s.at(time.Millisecond, from(fmt.Sprint("app", i/100), e))
	}
	if !s.fold.Tracks("real") {
		t.Error("Tracks(real) = false, want true")
	}
	if stats := s.fold.Stats(); stats.Evicted.Apps == 0 || stats.Bytes > 512<<10 {
		t.Errorf("stats = %+v, want evicted apps and at most %d bytes", stats, 512<<10)
	}
}

// TestSummaryIsHistory checks that an app whose only alert is in a summary has history.
func TestSummaryIsHistory(t *testing.T) {
	const apps = 700 // more than may raise an alert at once
	s := &script{fold: fold.New(fold.Config{MaxApps: apps, Rules: auto.Rules})}
	name := func(i int) string { return "app" + words(i) }
	for i := range apps {
		s.at(0, from(name(i), requested("GET", "/c", 401)))
	}
	published := len(s.alerts)
	s.at(10*time.Second, fold.Message{})
	if published >= apps || len(s.alerts) != apps {
		t.Fatalf("got %d alerts at once and %d after 10 s, want fewer than %[3]d and %[3]d", published, len(s.alerts), apps)
	}
	s.at(11*time.Second, from("new", tick()))
	if s.fold.Tracks("new") || !s.fold.Tracks(name(apps-1)) {
		t.Errorf("got new tracked %t, the newest app with a summary %t, want the latter alone", s.fold.Tracks("new"), s.fold.Tracks(name(apps-1)))
	}
}

// TestHistoryOutlivesAClock checks that an app keeps its history where the clock is set
// back, over a restart as well.
func TestHistoryOutlivesAClock(t *testing.T) {
	cfg := fold.Config{MaxApps: 2, Rules: auto.Rules}
	for _, restart := range []bool{false, true} {
		for _, back := range []time.Duration{5 * time.Minute, time.Hour} {
			s := &script{fold: fold.New(cfg)}
			s.at(0, from("real", tick()))
			s.at(11*time.Minute, from("real", tick()))
			s.at(11*time.Minute-back, from("real", tick()))
			s.at(11*time.Minute-back, from("other", logged(telemetry.LevelError, "boom")))
			if restart {
				s.restart(t, cfg)
			}
			s.at(12*time.Minute-back, from("new", tick()))
			if !s.fold.Tracks("real") || !s.fold.Tracks("other") {
				t.Errorf("%s back, restart %t: got real tracked %t, other %t, want both", back, restart, s.fold.Tracks("real"), s.fold.Tracks("other"))
			}
		}
	}
}

// TestReplayOfManyApps checks that restarts do not change which apps are tracked.
func TestReplayOfManyApps(t *testing.T) {
	cfg := fold.Config{MaxApps: 3, Rules: auto.Rules}
	rapid.Check(t, func(t *rapid.T) {
		one, other := &script{fold: fold.New(cfg)}, &script{fold: fold.New(cfg)}
		now := time.Duration(0)
		for range rapid.IntRange(1, 100).Draw(t, "messages") {
			now += rapid.SampledFrom([]time.Duration{0, time.Second, 4 * time.Minute, 13 * time.Hour, -30 * time.Second, -time.Hour}).Draw(t, "pause")
			var all []telemetry.Event
			for range rapid.IntRange(1, 3).Draw(t, "events") {
				e := logged(rapid.SampledFrom([]telemetry.Level{"info", "info", "info", "error"}).Draw(t, "level"), "boom")
				e.App = rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "app")
				all = append(all, e)
			}
			if rapid.Bool().Draw(t, "restart") {
				other.restart(t, cfg)
			}
			if diff := cmp.Diff(one.at(now, events(all...)), other.at(now, events(all...))); diff != "" {
				t.Fatalf("outcome (-without +with restarts):\n%s", diff)
			}
			if got, want := other.fold.NotTracked(), one.fold.NotTracked(); got != want {
				t.Fatalf("NotTracked() = %d with restarts, want %d", got, want)
			}
		}
	})
}

// BenchmarkNewcomers measures an event of a new app.
func BenchmarkNewcomers(b *testing.B) {
	for _, history := range []bool{false, true} {
		b.Run(fmt.Sprint("all have history ", history), func(b *testing.B) {
			f := fold.New(auto)
			seq := uint64(0)
			apply := func(e telemetry.Event) {
				seq++
				e.App = fmt.Sprint("app", seq)
				f.Apply(fold.Message{Seq: seq, Time: start, Events: []telemetry.Event{e}})
			}
			for range fold.DefaultApps {
				e := tick()
				if history {
					e = logged(telemetry.LevelError, "boom")
				}
				apply(e)
			}
			b.ReportAllocs()
			for b.Loop() {
				apply(tick())
			}
		})
	}
}
