package noise_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func at(d time.Duration) time.Time { return time.UnixMilli(1_770_000_000_000).Add(d) }

func warn(message string) *telemetry.Log {
	return &telemetry.Log{Level: telemetry.LevelWarn, Message: message}
}

func fail(message string) *telemetry.Log {
	return &telemetry.Log{Level: telemetry.LevelError, Message: message}
}

func log(a *noise.App, l *telemetry.Log, d time.Duration) (bool, *noise.Found) {
	return a.Log(l, noise.FromTool(&telemetry.Event{Log: l}), template.Append(nil, l.Message), at(d))
}

func request(a *noise.App, url string, d time.Duration) (bool, *noise.Found) {
	return a.Request(url, template.AppendPage(nil, url), "", at(d))
}

// seen returns an app after n equal lines at one time and a run of auto-detection.
func seen(n int, l *telemetry.Log) *noise.App {
	a := noise.New("web", ruleset.NoiseSpec)
	for range n {
		log(a, l, 0)
	}
	a.Detect(at(0))
	return a
}

// TestDetect checks the rule that auto-detection makes for n equal lines at one time.
func TestDetect(t *testing.T) {
	const vite = "[vite] hot updated: /src/App.tsx?t=1700000000000"
	stack := func(frames ...string) *telemetry.Log {
		return &telemetry.Log{Level: telemetry.LevelError, Message: "boom", Stack: "Error: boom\n    at " + strings.Join(frames, "\n    at ")}
	}
	tests := []struct {
		name       string
		n          int
		line       *telemetry.Log
		state      string
		confidence float64
	}{
		{"9 times is nothing", 9, warn("slow 17"), "", 0},
		{"10 times is proposed", 10, warn("slow 17"), "proposed", 0.8},
		{"19 times is proposed", 19, warn("slow 17"), "proposed", 0.89},
		{"20 times applies", 20, warn("slow 17"), "applied", 0.9},
		{"29 times", 29, warn("slow 17"), "applied", 0.99},
		{"0.99 at most", 100, warn("slow 17"), "applied", 0.99},
		{"debug counts as well", 20, &telemetry.Log{Level: telemetry.LevelDebug, Message: "tick"}, "applied", 0.9},
		{"an error is never noise for being frequent", 1000, fail("database down"), "", 0},
		{"an error of a development server", 20, fail(vite), "applied", 0.9},
		{"an error of hot module replacement", 10, fail("[HMR] update failed"), "proposed", 0.8},
		{"an error in an extension, by source", 20, &telemetry.Log{Level: telemetry.LevelError, Message: "boom", Source: "chrome-extension://abcdef/content.js:1:2"}, "applied", 0.9},
		{"an error in an extension, by message", 20, fail("Denying load of moz-extension://abcdef/a.js"), "applied", 0.9},
		{"an error in an extension, by stack", 20, stack("f (chrome-extension://abcdef/content.js:1:2)", "http://localhost/app.js:1:1"), "applied", 0.9},
		{"an extension deeper in the stack is not where it comes from", 20, stack("f (http://localhost/app.js:1:1)", "chrome-extension://abcdef/content.js:1:2"), "", 0},
		{"a stack that names no place", 20, &telemetry.Log{Level: telemetry.LevelError, Message: "boom", Stack: "native"}, "", 0},
		{"source maps", 20, fail("DevTools failed to load source map: Could not load content for http://localhost/a.js.map"), "applied", 0.9},
		{"source maps in other words", 20, fail("Source-Map error: 404"), "applied", 0.9},
		{"source maps in one word", 20, fail("no SourceMaps"), "applied", 0.9},
		{"their comment", 20, fail("bad //# sourceMappingURL=a"), "applied", 0.9},
		{"a data source mapping is the app's own", 20, fail("data source mapping failed, resource map too, no outsource map"), "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := seen(tt.n, tt.line).Rules(at(0))
			if tt.state == "" {
				if len(all) > 0 {
					t.Errorf("rules = %+v, want none", all)
				}
				return
			}
			if len(all) != 1 {
				t.Fatalf("rules = %+v, want 1", all)
			}
			type figures struct {
				App, State, Pattern, Example string
				Kind                         telemetry.Kind
				Confidence                   float64
			}
			r := all[0]
			got := figures{r.App, r.State, r.Pattern, r.Example, r.Kind, r.Confidence}
			want := figures{"web", tt.state, template.Message(tt.line.Message), tt.line.Message, telemetry.KindLog, tt.confidence}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rule (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromTool(t *testing.T) {
	for url, want := range map[string]bool{
		"chrome-extension://abcdef/popup.html":                        true,
		"moz-extension://abcdef/background.html":                      true,
		"http://localhost:3000/cart":                                  false,
		"http://localhost:3000/open?page=chrome-extension://abcdef/a": false,
		"": false,
	} {
		if got := noise.FromTool(&telemetry.Event{URL: url, Log: fail("boom")}); got != want {
			t.Errorf("FromTool of a line on %q = %v, want %v", url, got, want)
		}
	}
}

func TestInfrastructure(t *testing.T) {
	tests := []struct{ url, pattern string }{
		{"http://localhost/health", "/health"},
		{"http://localhost/api/Healthz?x=1", "/api/Healthz"},
		{"/ping/", "/ping"},
		{"/ready", "/ready"},
		{"/readyz", "/readyz"},
		{"/livez", "/livez"},
		{"/actuator/health/liveness", "/actuator/health/liveness"},
		{"/health/live", "/health/live"},
		{"/sockjs-node/123/abcxyz/websocket?t=1", "/sockjs-node"},
		{"ws://localhost:3000/ws", "/ws"},
		{"/_next/webpack-hmr?page=/", "/_next/webpack-hmr"},
		{"/__vite_ping", "/__vite_ping"},
		{"/@vite/client", "/@vite"},
		{"http://localhost:4200/ng-cli-ws", "/ng-cli-ws"},
		{"ws://localhost:3000/_nuxt/hmr/", "/_nuxt/hmr"},
		{"/vite-hmr", "/vite-hmr"},
		{"ws://localhost:35729/livereload", "/livereload"},
		{"http://localhost:3000/browser-sync/socket.io/?EIO=4", "/browser-sync/socket.io"},
		{"ws://localhost:5173/?token=[REDACTED]", "ws://localhost/"},
		{"wss://app.localhost", "ws://localhost/"},
		{"ws://127.0.0.1:5173/", "ws://localhost/"},
		{"ws://[::1]:5173/", "ws://localhost/"},
		{"health", "health"},
		{"/socket.io/", ""}, {"wss://shop.example/", ""}, {"ws://localhost.example/", ""}, {"http://localhost/", ""}, {"ws://localhost:3000/chat", ""}, {"ws://[::1/", ""},
		{"/healthcare", ""}, {"/pingpong", ""}, {"/health/records", ""}, {"/api/ws", ""}, {"/live", ""}, {"/", ""}, {"", ""}, {"//", ""},
		{"/a-segment-that-is-longer-than-any/x", ""},
	}
	for _, tt := range tests {
		a := noise.New("web", ruleset.NoiseSpec)
		for range 20 {
			request(a, tt.url, 0)
		}
		a.Detect(at(0))
		rules := a.Rules(at(0))
		if tt.pattern == "" {
			if len(rules) > 0 {
				t.Errorf("%s: rules = %+v, want none", tt.url, rules)
			}
			continue
		}
		if len(rules) != 1 || rules[0].Pattern != tt.pattern || rules[0].State != "applied" || rules[0].Kind != telemetry.KindNetwork || rules[0].Confidence != 0.9 {
			t.Errorf("%s: rules = %+v, want one applied network rule %s with confidence 0.9", tt.url, rules, tt.pattern)
		}
	}
	a := noise.New("web", ruleset.NoiseSpec)
	for range 19 {
		request(a, "/health", 0)
	}
	if found := a.Detect(at(0)); found != nil {
		t.Errorf("after 19 health checks: found %+v, want nothing", found)
	}
}

func TestTimeline(t *testing.T) {
	type step struct {
		at     time.Duration
		lines  int // of a warning
		found  string
		hidden bool // whether the last line was
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"runs by itself 60 s after the first event, with the event that is", []step{
			{0, 25, "", false}, {59_999 * time.Millisecond, 1, "", false}, {time.Minute, 1, "applied", true}}},
		{"and every 60 s from then on", []step{
			{0, 1, "", false}, {time.Minute, 25, "", false}, {2*time.Minute - time.Millisecond, 1, "", false}, {2 * time.Minute, 1, "applied", true}}},
		{"a proposal is announced once, and again when it applies", []step{
			{0, 9, "", false}, {time.Minute, 1, "proposed", false}, {2 * time.Minute, 1, "", false},
			{3 * time.Minute, 9, "", false}, {4 * time.Minute, 1, "applied", true}, {5 * time.Minute, 1, "", true}}},
		{"what is 10 min old does not count", []step{
			{0, 9, "", false}, {10 * time.Minute, 1, "", false}}},
		{"what is just under does", []step{
			{time.Millisecond, 9, "", false}, {10 * time.Minute, 1, "proposed", false}}},
		{"a rule applies on when it falls silent", []step{
			{0, 20, "", false}, {time.Minute, 1, "applied", true}, {time.Hour, 1, "", true}}},
		{"a clock that is set back starts the period again", []step{
			{time.Hour, 1, "", false}, {0, 20, "", false}, {time.Minute, 1, "applied", true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := noise.New("web", ruleset.NoiseSpec)
			for i, s := range tt.steps {
				got, hidden := "", false
				for range s.lines {
					var found *noise.Found
					hidden, found = log(a, warn("slow 17"), s.at)
					if found.Len() > 0 {
						got += strings.Repeat("applied", len(found.Applied)) + strings.Repeat("proposed", len(found.Proposed))
					}
				}
				if got != s.found || hidden != s.hidden {
					t.Errorf("step %d: found %q, hidden %v, want %q, %v", i, got, hidden, s.found, s.hidden)
				}
				a = restored(t, a)
			}
		})
	}
}

func TestWhatARuleHides(t *testing.T) {
	ofTool, ofApp := fail("[vite] failed 17"), warn("slow 17")
	for _, tt := range []struct {
		name       string
		rule, line *telemetry.Log
		want       bool
	}{
		{"an error of a tool", ofTool, fail("[vite] failed 18"), true},
		{"a warning", ofApp, ofApp, true},
		{"an error with the words of a noisy warning", ofApp, fail("slow 17"), false},
		{"the same words from a tool", ofApp, &telemetry.Log{Level: telemetry.LevelError, Message: "slow 17", Source: "chrome-extension://a/b.js"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := seen(20, tt.rule)
			if hidden, _ := log(a, tt.line, 1); hidden != tt.want {
				t.Errorf("hidden = %v, want %v", hidden, tt.want)
			}
			count := uint64(0)
			if tt.want {
				count = 1
			}
			if r := a.Rules(at(0)); len(r) != 1 || r[0].Hidden != count {
				t.Errorf("rules = %+v, want one that hid %d lines", r, count)
			}
		})
	}
}

func TestRemovedRulesStayAway(t *testing.T) {
	a := seen(20, warn("slow 17"))
	id := a.Rules(at(0))[0].ID
	for i, tt := range []struct {
		id   string
		want bool
	}{{"noise_000000000000", false}, {id, true}, {id, false}} {
		if got := a.Remove(tt.id); got != tt.want {
			t.Errorf("removal %d, of %s = %v, want %v", i, tt.id, got, tt.want)
		}
	}
	a = restored(t, a)
	log(a, warn("slow 17"), 1)
	if found := a.Detect(at(2)); found != nil || len(a.Rules(at(0))) > 0 {
		t.Errorf("after the removal: found %+v and rules %+v, want none", found, a.Rules(at(0)))
	}
}

func TestAlert(t *testing.T) {
	a := noise.New("web", ruleset.NoiseSpec)
	for i := range 20 {
		log(a, warn(`slow "x"`), 0)
		request(a, "/health", 0)
		if i < 10 {
			log(a, warn("retry 5"), 0)
		}
	}
	found := a.Detect(at(0))
	got, ok := found.Alert()
	want := alert.Alert{
		Title: "Noise found and hidden", Detail: "Hidden from now on: slow <str> | /health", Context: map[string]any{"applied": 2, "proposed": 1},
		Severity: alert.Info, Category: alert.Noise, Source: alert.SourceNoise, DedupKey: got.DedupKey,
	}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("ok = %v, want true; alert (-want +got):\n%s", ok, diff)
	}
	if found.Len() != 3 {
		t.Errorf("%d patterns found, want 3", found.Len())
	}
	if again, _ := found.Alert(); again.DedupKey != got.DedupKey || !strings.HasPrefix(got.DedupKey, "noise:web:noise_") {
		t.Errorf("dedup keys = %q, then %q, want the same, beginning with noise:web:noise_", got.DedupKey, again.DedupKey)
	}
	only := noise.New("web", ruleset.NoiseSpec)
	for range 10 {
		log(only, warn("retry 5"), 0)
	}
	proposed := only.Detect(at(0))
	if _, ok := proposed.Alert(); ok || proposed.Len() != 1 || len(only.Rules(at(0))) != 1 {
		t.Errorf("of a proposal: alert %v, found %+v, rules %+v, want no alert, one found, one rule", ok, proposed, only.Rules(at(0)))
	}
	var none *noise.Found
	if got, ok := none.Alert(); ok {
		t.Errorf("alert of nothing = %+v, want none", got)
	}
}

// TestAlertOfMany checks that an alert counts the patterns for which it has no room.
func TestAlertOfMany(t *testing.T) {
	a := noise.New("web", ruleset.NoiseSpec)
	const patterns, each = 30, 100
	for i := range patterns {
		for range 25 {
			log(a, warn(letters(i)+strings.Repeat("x", each-len(letters(i)))), 0)
		}
	}
	got, _ := a.Detect(at(0)).Alert()
	named := strings.Count(got.Detail, "xxx |")
	if want := fmt.Sprintf(" | and %d more, which observe noise lists", patterns-named); named < 15 || !strings.HasSuffix(got.Detail, want) ||
		len(got.Detail) > alert.MaxDetail || got.Context["applied"] != patterns {
		t.Errorf("%d patterns are named in %d bytes of %+v, want at least 15 in at most %d, then %q", named, len(got.Detail), got, alert.MaxDetail, want)
	}
}

// letters spells a number in letters, which a template keeps.
func letters(n int) string {
	out := []byte(fmt.Sprint(n))
	for i := range out {
		out[i] += 'g' - '0'
	}
	return string(out)
}

func TestBounds(t *testing.T) {
	a := noise.New("web", ruleset.NoiseSpec)
	for i := range noise.MaxPatterns + 5 {
		log(a, warn("line "+letters(i)), 0)
	}
	if a.Patterns() != noise.MaxPatterns || a.Evicted() != 5 {
		t.Errorf("%d patterns, %d evicted, want %d, 5", a.Patterns(), a.Evicted(), noise.MaxPatterns)
	}

	a = noise.New("web", ruleset.NoiseSpec)
	for range 20 {
		for i := range noise.MaxRules + 3 {
			log(a, warn("line "+letters(i)), 0)
		}
	}
	if found := a.Detect(at(0)); len(found.Applied) != noise.MaxRules || a.LeftOut() != 3 {
		t.Errorf("%d rules, %d left out, want %d, 3", found.Len(), a.LeftOut(), noise.MaxRules)
	}
	if found := a.Detect(at(time.Minute)); found != nil {
		t.Errorf("while all rules are in use: found %+v, want nothing", found)
	}
	for range 20 {
		log(a, warn("newcomer"), time.Hour)
	}
	if found := a.Detect(at(time.Hour)); found.Len() != 1 || len(a.Rules(at(0))) != noise.MaxRules {
		t.Errorf("with idle rules: found %+v, %d rules, want one found, %d rules", found, len(a.Rules(at(0))), noise.MaxRules)
	}
	restored(t, a)
}

func TestManual(t *testing.T) {
	add := func(app string, kind telemetry.Kind, pattern string) query.NoiseRequest {
		return query.NoiseRequest{Action: query.NoiseAdd, App: app, Kind: kind, Pattern: pattern}
	}
	m := &noise.Manual{}
	var ids []string
	for _, c := range []query.NoiseRequest{add("web", telemetry.KindLog, "deprecated"), add("", telemetry.KindNetwork, "/ads/"), add("", "", "tracker"), add("web", telemetry.KindLog, "deprecated")} {
		id, err := m.Add(c, at(0))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if ids[0] != ids[3] || len(m.Rules("", at(0))) != 3 {
		t.Errorf("ids = %v with %d rules, want the first and the last equal, 3 rules", ids, len(m.Rules("", at(0))))
	}
	var restored noise.Manual
	snapshottest.Copy(t, m, &restored)
	m = &restored
	for _, tt := range []struct {
		app  string
		kind telemetry.Kind
		text string
		want bool
	}{
		{"web", telemetry.KindLog, "this is deprecated: x", true},
		{"api", telemetry.KindLog, "this is deprecated: x", false},
		{"web", telemetry.KindNetwork, "/deprecated", false},
		{"api", telemetry.KindNetwork, "http://x/ads/1", true},
		{"api", telemetry.KindLog, "http://x/ads/1", false},
		{"api", telemetry.KindLog, "tracker", true},
		{"api", telemetry.KindNetwork, "/tracker.js", true},
		{"api", telemetry.KindNetwork, "/TRACKER.js", false},
	} {
		if got := m.Hides(tt.app, tt.kind, noise.Sighting{Text: tt.text}, at(0)); got != tt.want {
			t.Errorf("%s event of app %s with text %q: hidden = %v, want %v", tt.kind, tt.app, tt.text, got, tt.want)
		}
	}
	var hidden []uint64
	for _, r := range m.Rules("", at(0)) {
		hidden = append(hidden, r.Hidden)
	}
	if diff := cmp.Diff([]uint64{1, 1, 2}, hidden); diff != "" {
		t.Errorf("hidden events of each rule (-want +got):\n%s", diff)
	}
	if n := len(m.Rules("api", at(0))); n != 2 {
		t.Errorf("%d rules about the app api, want 2", n)
	}
	if first, second := m.Remove(ids[0]), m.Remove(ids[0]); !first || second {
		t.Errorf("Remove = %v, then %v, want true, then false", first, second)
	}
	if m.Hides("web", telemetry.KindLog, noise.Sighting{Text: "deprecated"}, at(0)) {
		t.Error("a removed rule hides an event, want it shown")
	}
	for i := range noise.MaxManual - 2 {
		if _, err := m.Add(add("", "", fmt.Sprint("pattern ", i)), at(0)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Add(add("", "", "one more"), at(0)); !errors.Is(err, noise.ErrFull) {
		t.Errorf("Add over the limit: error = %v, want %v", err, noise.ErrFull)
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		c    query.NoiseRequest
		want error
	}{
		{query.NoiseRequest{Action: query.NoiseList}, nil},
		{query.NoiseRequest{Action: query.NoiseAutoDetect}, nil},
		{query.NoiseRequest{Action: query.NoiseAdd, Pattern: "x"}, nil},
		{query.NoiseRequest{Action: query.NoiseAdd, Pattern: " \n"}, noise.ErrPattern},
		{query.NoiseRequest{Action: query.NoiseAdd, Pattern: strings.Repeat("x", 501)}, noise.ErrPattern},
		{query.NoiseRequest{Action: query.NoiseAdd, Pattern: "x", Kind: telemetry.KindVitals}, noise.ErrKind},
		{query.NoiseRequest{Action: query.NoiseRemove, RuleID: "x"}, nil},
		{query.NoiseRequest{Action: query.NoiseRemove}, noise.ErrNoRule},
		{query.NoiseRequest{Action: "dance"}, noise.ErrAction},
		{query.NoiseRequest{}, noise.ErrAction},
	} {
		if got := noise.Check(tt.c); !errors.Is(got, tt.want) {
			t.Errorf("Check(%+v) = %v, want %v", tt.c, got, tt.want)
		}
	}
}

// TestCountsAreExact compares the confidence of a rule with a count of all lines, with
// restarts.
func TestCountsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := noise.New("web", ruleset.NoiseSpec)
		var times []time.Duration
		now := time.Duration(0)
		want := 0
		for range rapid.IntRange(1, 20).Draw(t, "bursts") {
			now += rapid.SampledFrom([]time.Duration{0, time.Second, 59 * time.Second, time.Minute, 9 * time.Minute, 10 * time.Minute}).Draw(t, "gap")
			for range rapid.IntRange(1, 12).Draw(t, "lines") {
				log(a, warn("slow 17"), now)
				times = append(times, now)
			}
			a.Detect(at(now))
			n := 0
			for _, s := range times {
				if s > now-10*time.Minute {
					n++
				}
			}
			if n >= 10 {
				want = max(want, min(70+n, 99))
			}
			got := 0
			if rules := a.Rules(at(0)); len(rules) > 0 {
				got = int(rules[0].Confidence*100 + 0.5)
				if (rules[0].State == "applied") != (got >= 90) {
					t.Fatalf("rule = %+v, want it applied from 0.9 on, else proposed", rules[0])
				}
			}
			// A run of auto-detection within a burst may have counted more lines than the
			// one at its end, and the confidence never falls.
			if got < want {
				t.Fatalf("confidence = %d, want at least %d", got, want)
			}
			want = got
			if rapid.Bool().Draw(t, "restart") {
				a = restored(t, a)
			}
		}
	})
}

type fataler interface{ Fatal(...any) }

func restored(t fataler, a *noise.App) *noise.App { return restoredBy(t, a, ruleset.NoiseSpec) }

func restoredBy(t fataler, a *noise.App, by ruleset.Noise) *noise.App {
	again := noise.New("web", by)
	snapshottest.Copy(t, a, again)
	if again.Size() != a.Size() {
		t.Fatal("restored: size", again.Size(), "want", a.Size())
	}
	return again
}

func BenchmarkLog(b *testing.B) {
	b.ReportAllocs()
	a := noise.New("web", ruleset.NoiseSpec)
	l := warn("GET /api/users/42 took 1234 ms for some user of the shop, which is slow")
	known := template.Append(nil, l.Message)
	now := at(0)
	for b.Loop() {
		now = now.Add(time.Millisecond)
		a.Log(l, false, known, now)
	}
}
