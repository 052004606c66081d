package fold_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var start = time.UnixMilli(1_770_000_000_000).UTC()

// script applies messages at given times and collects the alerts.
type script struct {
	fold   *fold.Fold
	seq    uint64
	alerts []alert.Alert
	before func() // called before each message, if set
}

func newScript() *script { return &script{fold: fold.New(fold.Config{})} }

func (s *script) at(d time.Duration, m fold.Message) fold.Outcome {
	if s.before != nil {
		s.before()
	}
	s.seq++
	m.Seq, m.Time = s.seq, start.Add(d)
	out := s.fold.Apply(m)
	s.alerts = append(s.alerts, out.Alerts...)
	return out
}

func (s *script) titles() string {
	var all []string
	for _, a := range s.alerts {
		all = append(all, fmt.Sprintf("%s %s: %s", a.Severity, a.Category, a.Title))
	}
	return strings.Join(all, "\n")
}

func events(all ...telemetry.Event) fold.Message { return fold.Message{Events: all} }

func logged(level telemetry.Level, message string) telemetry.Event {
	return telemetry.Event{Kind: telemetry.KindLog, App: "web", Log: &telemetry.Log{Level: level, Message: message}}
}

func requested(method, url string, status int) telemetry.Event {
	return telemetry.Event{Kind: telemetry.KindNetwork, App: "web", Network: &telemetry.Network{Method: method, URL: url, Status: status}}
}

func loaded(page string, lcp float64) telemetry.Event {
	return telemetry.Event{Kind: telemetry.KindVitals, App: "web", URL: "http://localhost:3000" + page, Vitals: &telemetry.Vitals{LCP: &lcp}}
}

func clicked(target string) telemetry.Event {
	return telemetry.Event{Kind: telemetry.KindAction, App: "web", Session: "s", Action: &telemetry.Action{Type: telemetry.ActionClick, Target: target}}
}

func TestEachCategory(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(s *script)
		want string
	}{
		{"regression", func(s *script) {
			for i := range 5 {
				s.at(time.Duration(i)*time.Second, events(loaded("/cart", 2500)))
			}
			s.at(10*time.Second, events(loaded("/cart", 3350)))
		}, "warning regression: LCP regressed 34% on /cart"},
		{"an error's first time", func(s *script) {
			s.at(0, events(logged(telemetry.LevelError, "boom 1"), logged(telemetry.LevelError, "boom 2")))
		}, "error errors: New error: boom <n>"},
		{"network", func(s *script) {
			s.at(0, events(requested("POST", "/api/users", 500)))
		}, "error network_errors: Server error: POST /api/users → 500"},
		{"no alert for a good request", func(s *script) { s.at(0, events(requested("GET", "/", 200))) }, ""},
		{"CI", func(s *script) {
			s.at(0, fold.Message{CI: &ci.Result{Status: ci.StatusFailure, Source: ci.SourceCustom, Name: "build", Ref: "main"}})
		}, "error ci: CI failure: build on main"},
		{"an external alert", func(s *script) {
			s.at(0, raised(external.StateFiring, "1"))
		}, "error threshold: Alert firing: Down on shop"},
		{"the end of an external alert", func(s *script) {
			s.at(0, raised(external.StateResolved, "1"))
		}, "info threshold: Alert resolved: Down on shop"},
		{"a fault of a cluster", func(s *script) {
			s.at(0, fold.Message{External: []external.Alert{{
				Source: alert.SourceKubernetes, Key: "a1", State: external.StateFiring, Severity: alert.Error, App: "shop",
				Fault: &external.Fault{Cluster: "dev", Kind: "Node", Name: "n1", Fault: "node_not_ready"},
			}}})
		}, "error kubernetes: Node not ready: n1"},
		{"memory", func(s *script) {
			s.at(0, events(telemetry.Event{Kind: telemetry.KindMemory, App: "web", Memory: &telemetry.Memory{UsedBytes: 80, LimitBytes: 100}}))
		}, "warning threshold: "},
		{"circuit", func(s *script) {
			s.at(0, events(telemetry.Event{Kind: telemetry.KindCircuit, App: "web", Circuit: &telemetry.Circuit{Name: "db", State: telemetry.CircuitOpen}}))
		}, "error threshold: "},
		{"security", func(s *script) {
			s.at(0, events(telemetry.Event{Kind: telemetry.KindSecurity, App: "web", Security: &telemetry.Security{Type: "csp"}}))
		}, "warning security: "},
		{"frustration", func(s *script) {
			for i := range 3 {
				s.at(time.Duration(i)*300*time.Millisecond, events(clicked("#pay")))
			}
		}, "warning user_frustration: "},
		{"noise", func(s *script) {
			for i := range 20 {
				s.at(time.Duration(i)*time.Second, events(logged(telemetry.LevelInfo, fmt.Sprintf("tick %d", i))))
			}
			s.at(2*time.Minute, events(logged(telemetry.LevelInfo, "something else")))
		}, "info noise: Noise found and hidden"},
		{"no alert for noise that is only proposed", func(s *script) {
			for i := range 19 {
				s.at(time.Duration(i)*time.Second, events(logged(telemetry.LevelInfo, fmt.Sprintf("tick %d", i))))
			}
			out := s.at(2*time.Minute, fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseAutoDetect}})
			if out.Noise.Found != 1 || len(s.fold.NoiseRules("web")) != 1 {
				s.alerts = append(s.alerts, alert.Alert{Title: fmt.Sprintf("%+v", out.Noise)})
			}
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript()
			tt.play(s)
			if tt.want == "" && len(s.alerts) > 0 || !strings.HasPrefix(s.titles(), tt.want) || len(s.alerts) > 1 {
				t.Fatalf("got\n%s\nwant\n%s", s.titles(), tt.want)
			}
			for _, a := range s.alerts {
				if len(a.ID) != 26 || a.CorrelationID != a.ID {
					t.Errorf("id, correlation id = %q, %q, want one id of 26 characters", a.ID, a.CorrelationID)
				}
				if a.DedupKey == "" || a.Source == "" || a.App == "" || a.Timestamp.IsZero() {
					t.Errorf("alert = %+v, want dedup key, source, app and timestamp", a)
				}
			}
		})
	}
}

func TestAnomalyAndRegressionCorrelate(t *testing.T) {
	for _, tt := range []struct {
		name string
		gap  time.Duration
		same bool
	}{{"5 s apart", 5 * time.Second, true}, {"5.001 s apart", 5001 * time.Millisecond, false}} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript()
			s.at(0, events(loaded("/cart", 1000)))
			s.at(100*time.Second, events(loaded("/cart", 2000)))
			for range 6 {
				s.at(100*time.Second+tt.gap, events(logged(telemetry.LevelError, "boom")))
			}
			ids := map[alert.Category]string{}
			for _, a := range s.alerts {
				ids[a.Category] = a.CorrelationID
			}
			if ids[alert.Regression] == "" || ids[alert.Anomaly] == "" || (ids[alert.Regression] == ids[alert.Anomaly]) != tt.same {
				t.Errorf("correlation ids = %v, want two, equal: %v\n%s", ids, tt.same, s.titles())
			}
		})
	}
}

// TestCorrelationAgreesWithTheDigest checks that the alerts that the gateway joins have one
// correlation id, also when several came at the same time.
func TestCorrelationAgreesWithTheDigest(t *testing.T) {
	slow := func(fcp, lcp float64) telemetry.Event {
		e := loaded("/cart", lcp)
		e.Vitals.FCP = &fcp
		return e
	}
	logs, requests := slices.Repeat([]telemetry.Event{logged(telemetry.LevelError, "boom")}, 6), slices.Repeat([]telemetry.Event{requested("GET", "/x", 500)}, 6)
	for _, tt := range []struct {
		name     string
		messages []fold.Message // a second apart
	}{
		{"two regressions of one load, then a spike", []fold.Message{events(slow(2000, 2000)), events(logs...)}},
		{"all in one message", []fold.Message{events(slices.Concat([]telemetry.Event{slow(2000, 2000)}, logs)...)}},
		{"a spike, then two regressions", []fold.Message{events(logs...), events(slow(2000, 2000))}},
		{"two spikes, then a regression", []fold.Message{events(slices.Concat(logs, requests)...), events(slow(1000, 2000))}},
		{"two loads: the later is nearer", []fold.Message{events(slow(2000, 1000)), events(slow(1000, 2000)), events(logs...)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript()
			s.at(0, events(slow(1000, 1000)))
			for i, m := range tt.messages {
				s.at(100*time.Second+time.Duration(i)*time.Second, m)
			}
			ids := map[string]string{}
			for _, a := range s.alerts {
				ids[a.Title] = a.CorrelationID
			}
			joined := slices.DeleteFunc(alert.Digest(s.alerts), func(a alert.Alert) bool { return !strings.HasPrefix(a.Title, "Correlated: ") })
			if len(joined) != 1 {
				t.Fatalf("%d joined alerts, want 1\n%s", len(joined), s.titles())
			}
			for _, part := range strings.Split(strings.TrimPrefix(joined[0].Title, "Correlated: "), " + ") {
				if got, want := ids[part], joined[0].CorrelationID; got != want {
					t.Errorf("correlation id of %q = %s, want that of the joined alert, %s", part, got, want)
				}
			}
		})
	}
}

func TestNoiseRaisesNothing(t *testing.T) {
	s := newScript()
	out := s.at(0, fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseAdd, Pattern: "/legacy", Kind: telemetry.KindNetwork}})
	if out.Noise == nil || out.Noise.Err != nil || out.Noise.Added == "" {
		t.Fatalf("add: %+v, want a rule", out.Noise)
	}
	for range 10 {
		s.at(time.Second, events(requested("GET", "/legacy/x", 500)))
	}
	if len(s.alerts) != 0 || s.fold.Stats().Hidden != 10 {
		t.Errorf("%d events hidden, want 10; alerts, want none:\n%s", s.fold.Stats().Hidden, s.titles())
	}
	if out := s.at(2*time.Second, fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseRemove, RuleID: out.Noise.Added}}); out.Noise.Err != nil {
		t.Fatal(out.Noise.Err)
	}
	if s.at(3*time.Second, events(requested("GET", "/legacy/x", 500))); len(s.alerts) != 1 {
		t.Errorf("%d alerts once the rule is removed, want 1\n%s", len(s.alerts), s.titles())
	}
}

// TestStorm checks that at most 10 alerts of a key are published in 10 s, and that the next
// one counts those that were suppressed.
func TestStorm(t *testing.T) {
	s := newScript()
	for i := range 25 {
		s.at(time.Duration(i)*100*time.Millisecond, events(requested("GET", "/down", 503)))
	}
	s.at(20*time.Second, events(requested("GET", "/down", 503)))
	network, total := 0, 0
	for _, a := range s.alerts {
		if a.Category == alert.NetworkErrors {
			network++
			total += a.Occurrences()
		}
	}
	if network != 11 || total != 26 {
		t.Errorf("%d alerts for %d requests, want 11 for 26\n%s", network, total, s.titles())
	}
}

func TestCIEpisodes(t *testing.T) {
	s := newScript()
	result := func(status string) fold.Message {
		return fold.Message{CI: &ci.Result{Status: status, Source: ci.SourceCustom, Commit: "abc", Name: "build"}}
	}
	for i, status := range []string{"failure", "failure", "success", "failure", "failure"} {
		s.at(time.Duration(i)*time.Second, result(status))
	}
	a := s.alerts
	if len(a) != 5 {
		t.Fatalf("%d alerts, want 5", len(a))
	}
	got, want := []string{a[1].Revises, a[2].Revises, a[3].Revises, a[4].Revises}, []string{a[0].ID, "", "", a[3].ID}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("revised alerts (-want +got):\n%s", diff)
	}
	if a[0].DedupKey == a[3].DedupKey {
		t.Errorf("dedup key = %q for both failures, want two", a[0].DedupKey)
	}
}

// TestCIStorm checks that a result that repeats is bounded, and that it raises no count,
// because it updates one alert.
func TestCIStorm(t *testing.T) {
	s := newScript()
	result := func(summary string) fold.Message {
		return fold.Message{CI: &ci.Result{Status: "failure", Source: ci.SourceCustom, Commit: "abc", Name: "build", Summary: summary}}
	}
	for i := range 25 {
		s.at(time.Duration(i)*10*time.Millisecond, result(fmt.Sprint("run ", i)))
	}
	if len(s.alerts) != 10 || s.fold.Stats().Suppressed != 15 {
		t.Errorf("%d alerts, %d suppressed, want 10, 15", len(s.alerts), s.fold.Stats().Suppressed)
	}
	s.at(10*time.Second, result("the last run"))
	if len(s.alerts) != 11 {
		t.Fatalf("%d alerts, want 11", len(s.alerts))
	}
	for i, a := range s.alerts {
		if a.Count != 0 || i > 0 && a.Revises != s.alerts[0].ID || a.DedupKey != s.alerts[0].DedupKey {
			t.Errorf("alert %d: count, revises, dedup key = %d, %q, %q, want 0, that of the first, and its key", i, a.Count, a.Revises, a.DedupKey)
		}
	}
	if last := s.alerts[10]; !strings.Contains(last.Detail, "the last run") {
		t.Errorf("detail = %q, want the last run in it", last.Detail)
	}
}

// TestOutsideTextIsMadeVisible checks that senders' texts in alerts are sanitized and bounded.
func TestOutsideTextIsMadeVisible(t *testing.T) {
	s := newScript()
	e := logged(telemetry.LevelError, "\x1b[31mred\u202e\n"+strings.Repeat("x ", 5000))
	e.App = "w\teb"
	s.at(0, events(e))
	a := s.alerts[0]
	if strings.ContainsAny(a.Title+a.Detail+a.App, "\x1b\n\t\u202e") || len([]rune(a.Title)) > alert.MaxTitle || len([]rune(a.Detail)) > alert.MaxDetail {
		t.Errorf("title, detail, app = %q, %q, %q, want no controls and bounded lengths", a.Title, a.Detail, a.App)
	}
}

func TestBounds(t *testing.T) {
	f := fold.New(fold.Config{MaxApps: 3})
	for i := range 10 {
		e := logged(telemetry.LevelInfo, "tick")
		e.App = fmt.Sprint("app", i)
		f.Apply(fold.Message{Seq: uint64(i + 1), Time: start, Events: []telemetry.Event{e}})
	}
	if s := f.Stats(); s.Apps != 3 || s.Evicted.Apps != 7 || s.NotTracked != 7 {
		t.Errorf("apps, evicted, not tracked = %d, %d, %d, want 3, 7, 7", s.Apps, s.Evicted.Apps, s.NotTracked)
	}
	small := fold.New(fold.Config{MaxBytes: 64 << 10})
	for i := range 2000 {
		e := logged(telemetry.LevelError, fmt.Sprintf("boom %c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676))
		e.App = fmt.Sprint("app", i%100)
		small.Apply(fold.Message{Seq: uint64(i + 1), Time: start, Events: []telemetry.Event{e}})
	}
	if s := small.Stats(); s.Bytes > 64<<10+64<<10 || s.Evicted.Apps == 0 {
		t.Errorf("bytes, evicted apps = %d, %d, want at most %d, and some", s.Bytes, s.Evicted.Apps, 64<<10+64<<10)
	}
}

// message draws one message of the log.
func message(t *rapid.T) fold.Message {
	switch rapid.IntRange(0, 13).Draw(t, "type") {
	case 4:
		app, bad := rapid.SampledFrom([]string{"web", "shop"}).Draw(t, "app"), slices.Concat(memory(95).Events, circuit("db", "open").Events)
		flaps := slices.Repeat(slices.Concat(bad, allWell("").Events), rapid.IntRange(1, 12).Draw(t, "times"))
		for i := range flaps {
			flaps[i].App = app
		}
		return events(flaps[:len(flaps)-rapid.IntRange(0, 3).Draw(t, "less")]...)
	case 0:
		return fold.Message{CI: &ci.Result{
			Status: rapid.SampledFrom([]string{"success", "failure", "error"}).Draw(t, "status"), Source: ci.SourceCustom,
			Commit: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "commit"), Ref: rapid.SampledFrom([]string{"", "main"}).Draw(t, "ref"),
		}}
	case 2:
		m := raised(rapid.SampledFrom([]string{"firing", "resolved"}).Draw(t, "state"), rapid.SampledFrom([]string{"1", "2"}).Draw(t, "episode"))
		m.External[0].Key = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
		return fold.Message{External: slices.Repeat(m.External, rapid.IntRange(0, 12).Draw(t, "times"))}
	case 3:
		burst := slices.Repeat([]telemetry.Event{logged(telemetry.LevelError, "burst")}, 6)
		for i := range burst {
			burst[i].App = rapid.SampledFrom([]string{"", "web", "shop"}).Draw(t, "app")
		}
		return events(burst...)
	case 1:
		return fold.Message{Noise: &query.NoiseRequest{
			Action:  rapid.SampledFrom([]query.NoiseAction{query.NoiseAdd, query.NoiseAutoDetect, query.NoiseRemove}).Draw(t, "action"),
			Pattern: rapid.SampledFrom([]string{"boom 1", "/a"}).Draw(t, "pattern"), RuleID: "none",
		}}
	}
	var all []telemetry.Event
	for range rapid.IntRange(0, 4).Draw(t, "events") {
		var e telemetry.Event
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			e = logged(rapid.SampledFrom([]telemetry.Level{"info", "error", "warn"}).Draw(t, "level"), rapid.SampledFrom([]string{"boom 1", "tick", "[HMR] x"}).Draw(t, "message"))
			if f := rapid.SampledFrom([]string{"", "pay", "cart"}).Draw(t, "function"); f != "" {
				e.Log.Stack = thrown(e.Log.Message, f).Log.Stack
			}
			e.Log.Fingerprint = rapid.SampledFrom([]telemetry.Fingerprint{nil, nil, {"{{ default }}", "eu"}}).Draw(t, "fingerprint")
		case 1:
			e = requested("GET", rapid.SampledFrom([]string{"/a", "/b?x=1", "/health"}).Draw(t, "url"), rapid.SampledFrom([]int{0, 200, 401, 500}).Draw(t, "status"))
		case 2:
			e = loaded(rapid.SampledFrom([]string{"/a", "/b"}).Draw(t, "page"), rapid.Float64Range(0, 5000).Draw(t, "lcp"))
		case 3:
			e = clicked("#a")
		case 4:
			e = telemetry.Event{Kind: telemetry.KindMemory, Memory: &telemetry.Memory{UsedBytes: rapid.Float64Range(1, 100).Draw(t, "used"), LimitBytes: 100}}
		default:
			e = telemetry.Event{Kind: telemetry.KindCircuit, Circuit: &telemetry.Circuit{Name: "db", State: rapid.SampledFrom([]string{"open", "half_open", "closed"}).Draw(t, "state")}}
		}
		e.App = rapid.SampledFrom([]string{"", "web", "shop"}).Draw(t, "app")
		e.Release = rapid.SampledFrom([]string{"", "1", "2", "3", "4", "5", "6", "7", "8", "9"}).Draw(t, "release")
		all = append(all, e)
	}
	return events(all...)
}

// TestReplay checks that the same log gives the same alerts with and without restarts, also
// when there is so little memory that apps are forgotten.
func TestReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := fold.Config{
			MaxBytes: rapid.SampledFrom([]int{0, 5 << 10, 8 << 10}).Draw(t, "bytes"),
			Rules: ruleset.Table{Default: ruleset.Set{
				Anomaly:    rapid.SampledFrom([]ruleset.Anomaly{ruleset.Ratio3x, ruleset.RateTail, ruleset.Auto}).Draw(t, "anomaly"),
				Regression: rapid.SampledFrom([]ruleset.Regression{ruleset.Spec, ruleset.Confirmed, ruleset.AutoRegression}).Draw(t, "regression"),
			}},
		}
		one, other := &script{fold: fold.New(cfg)}, &script{fold: fold.New(cfg)}
		now := time.Duration(0)
		for range rapid.IntRange(1, 120).Draw(t, "messages") {
			now += time.Duration(rapid.SampledFrom([]int{0, 1, 100, 900, 5000, 61_000}).Draw(t, "ms")) * time.Millisecond
			m := message(t)
			one.at(now, m)
			if rapid.Bool().Draw(t, "restart") {
				other.restart(t, cfg)
			}
			other.at(now, m)
		}
		if diff := cmp.Diff(one.alerts, other.alerts); diff != "" {
			t.Fatalf("alerts (-without +with restarts):\n%s", diff)
		}
		ids := map[string]bool{}
		for _, a := range one.alerts {
			if ids[a.ID] {
				t.Fatalf("%q has the id %s of another alert, want its own", a.Title, a.ID)
			}
			ids[a.ID] = true
		}
		checkResolutions(t, one.alerts)
		if cfg.MaxBytes == 0 {
			for i := range 3 {
				for _, app := range []string{"", "web", "shop"} {
					one.at(now+time.Duration(20+i)*time.Second, allWell(app))
				}
			}
			checkAllWell(t, one.alerts)
		}
	})
}

// allWell returns a message after which an app's thresholds are back to normal.
func allWell(app string) fold.Message {
	m := events(slices.Concat(memory(10).Events, circuit("db", "closed").Events)...)
	for i := range m.Events {
		m.Events[i].App = app
	}
	return m
}

// checkAllWell checks that all alerts about memory and circuits are resolved, at most ten about
// each.
func checkAllWell(t fataler, alerts []alert.Alert) {
	open := map[string][]string{}
	for _, a := range alerts {
		if a.Source != alert.SourceMemory && a.Source != alert.SourceCircuit {
			continue
		}
		subject := a.App + " " + a.Source
		switch {
		case a.Severity != alert.Info:
			open[subject] = append(open[subject], a.ID)
		case len(open[subject]) == 0:
			if a.IsResolution() {
				t.Fatalf("%s: %q resolves %q, want nothing, because nothing is open", subject, a.Title, a.Resolves)
			}
		default:
			if ends := 1 + len(a.AlsoResolves); ends != min(len(open[subject]), 10) || !a.Ends(open[subject][len(open[subject])-1]) {
				t.Fatalf("%s: %q resolves %d alerts, want the newest 10 of %v", subject, a.Title, ends, open[subject])
			}
			delete(open, subject)
		}
	}
	if len(open) > 0 {
		t.Fatalf("open alerts = %v, want none", open)
	}
}

func TestRestoreRefuses(t *testing.T) {
	s := newScript()
	s.at(0, events(logged(telemetry.LevelError, "boom"), loaded("/a", 1), requested("GET", "/x", 500)))
	state, err := s.fold.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"nothing": nil, "cut": state[:len(state)-1], "something else": []byte(strings.Repeat("x", 100))} {
		if err := fold.New(fold.Config{}).Restore(bad); !errors.Is(err, fold.ErrDamaged) {
			t.Errorf("%s: error = %v, want %v", name, err, fold.ErrDamaged)
		}
	}
	flipped := append([]byte{}, state...)
	flipped[len(flipped)-3] ^= 1
	if err := fold.New(fold.Config{}).Restore(flipped); !errors.Is(err, fold.ErrDamaged) {
		t.Errorf("flipped: error = %v, want %v", err, fold.ErrDamaged)
	}
	for _, version := range []byte{0, 3, 5, fold.Version + 1} {
		another := append([]byte{}, state...)
		another[len("tocsin fold\n")+3] = version
		if err := fold.New(fold.Config{}).Restore(another); !errors.Is(err, fold.ErrVersion) {
			t.Errorf("version %d: error = %v, want %v", version, err, fold.ErrVersion)
		}
	}
}

func FuzzRestore(f *testing.F) {
	s := newScript()
	s.at(0, events(logged(telemetry.LevelError, "boom"), loaded("/a", 1), requested("GET", "/x", 500), clicked("#a")))
	s.at(0, raised("firing", "1"))
	s.at(0, built("failure", "a"))
	s.at(0, memory(90))
	s.at(0, errorsLogged(5))
	s.at(0, events(loaded("/a", 1000)))
	state, err := s.fold.Snapshot()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state)
	older, err := os.ReadFile("testdata/version4.snapshot")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(older)
	f.Fuzz(func(t *testing.T, state []byte) {
		if err := fold.New(fold.Config{}).Restore(state); err != nil && !errors.Is(err, fold.ErrDamaged) && !errors.Is(err, fold.ErrVersion) {
			t.Fatal(err)
		}
	})
}

func BenchmarkApply(b *testing.B) {
	batch := make([]telemetry.Event, 0, 100)
	for i := range 50 {
		batch = append(batch, logged(telemetry.LevelInfo, fmt.Sprintf("user %d took %d ms for /orders/%d", i, i*7, i)), requested("GET", fmt.Sprintf("/api/orders/%d", i), 200))
	}
	f := fold.New(fold.Config{})
	b.ReportAllocs()
	seq, now := uint64(0), start
	for b.Loop() {
		seq++
		now = now.Add(10 * time.Millisecond)
		f.Apply(fold.Message{Seq: seq, Time: now, Events: batch})
	}
}

// TestPartitionIDs checks that a message in several partitions, such as a command, raises
// alerts with different ids.
func TestPartitionIDs(t *testing.T) {
	ids := map[string]string{}
	for _, partition := range []string{"", "0/2", "1/2"} {
		f := fold.New(fold.Config{Partition: partition})
		for i := range 20 {
			f.Apply(fold.Message{Seq: uint64(i + 1), Time: start.Add(time.Duration(i) * time.Second), Events: []telemetry.Event{
				{Kind: telemetry.KindLog, App: "web", Log: &telemetry.Log{Level: telemetry.LevelInfo, Message: fmt.Sprintf("tick %d", i)}},
			}})
		}
		out := f.Apply(fold.Message{Seq: 99, Time: start.Add(time.Minute / 2), Noise: &query.NoiseRequest{Action: query.NoiseAutoDetect}})
		if len(out.Alerts) != 1 {
			t.Fatalf("partition %q: %d alerts, want 1", partition, len(out.Alerts))
		}
		id := out.Alerts[0].ID
		if other, ok := ids[id]; ok {
			t.Errorf("partition %q: id %s as in %q, want another one", partition, id, other)
		}
		ids[id] = partition
	}
}

// TestPages checks the names of pages and their baselines.
func TestPages(t *testing.T) {
	f := fold.New(fold.Config{})
	lcp := 1200.0
	for i, url := range []string{"/a/1", "/b"} {
		f.Apply(fold.Message{Seq: uint64(i + 1), Time: start, Events: []telemetry.Event{{Kind: telemetry.KindVitals, App: "web", URL: url, Vitals: &telemetry.Vitals{LCP: &lcp}}}})
	}
	for app, want := range map[string][]string{"web": {"/b", "/a/:id"}, "shop": nil} {
		if diff := cmp.Diff(want, f.Pages(app)); diff != "" {
			t.Errorf("Pages(%s) (-want +got):\n%s", app, diff)
		}
	}
	for _, tt := range []struct {
		app, page string
		want      map[string]query.Baseline
	}{
		{"web", "/a/:id", map[string]query.Baseline{"lcp_ms": {Median: 1200, Loads: 1}}},
		{"web", "/c", map[string]query.Baseline{}},
		{"shop", "/", map[string]query.Baseline{}},
	} {
		if diff := cmp.Diff(tt.want, f.PageBaselines(tt.app, tt.page)); diff != "" {
			t.Errorf("PageBaselines(%s, %s) (-want +got):\n%s", tt.app, tt.page, diff)
		}
	}
}
