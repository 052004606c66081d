package noise_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

// seen feeds n lines in one instant and runs auto-detection.
func seen(n int, l *telemetry.Log) *noise.App {
	a := noise.New("web", ruleset.NoiseSpec)
	for range n {
		log(a, l, 0)
	}
	a.Detect(at(0))
	return a
}

// Each row is what an app said, all at once, and the rule that detection made.
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
					t.Errorf("got %+v", all)
				}
				return
			}
			if len(all) != 1 || all[0].State != tt.state || all[0].Confidence != tt.confidence {
				t.Fatalf("got %+v", all)
			}
			if r := all[0]; r.Pattern != template.Message(tt.line.Message) || r.Example != tt.line.Message || r.App != "web" || r.Kind != telemetry.KindLog {
				t.Errorf("got %+v", r)
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
			t.Errorf("a line on %q: %v", url, got)
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
				t.Errorf("%s: %+v", tt.url, rules)
			}
			continue
		}
		if len(rules) != 1 || rules[0].Pattern != tt.pattern || rules[0].State != "applied" || rules[0].Kind != telemetry.KindNetwork || rules[0].Confidence != 0.9 {
			t.Errorf("%s: %+v", tt.url, rules)
		}
	}
	a := noise.New("web", ruleset.NoiseSpec)
	for range 19 {
		request(a, "/health", 0)
	}
	if found := a.Detect(at(0)); found != nil {
		t.Errorf("19 health checks are nothing: %+v", found)
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
					t.Errorf("step %d: found %q, hidden %v", i, got, hidden)
				}
				a = restored(t, a)
			}
		})
	}
}

func TestWhatARuleHides(t *testing.T) {
	const message = "[vite] failed 17"
	a := seen(20, fail(message))
	if hidden, _ := log(a, fail("[vite] failed 18"), 1); !hidden {
		t.Error("an error of a tool is hidden")
	}
	words := warn("slow 17")
	a = seen(20, words)
	if hidden, _ := log(a, words, 1); !hidden {
		t.Error("the warning is hidden")
	}
	if hidden, _ := log(a, fail("slow 17"), 1); hidden {
		t.Error("an error with the words of a noisy warning is not")
	}
	ofTool := &telemetry.Log{Level: telemetry.LevelError, Message: "slow 17", Source: "chrome-extension://a/b.js"}
	if hidden, _ := log(a, ofTool, 1); hidden {
		t.Error("the same words from a tool are another pattern")
	}
	if r := a.Rules(at(0)); len(r) != 1 || r[0].Hidden != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestRemovedRulesStayAway(t *testing.T) {
	a := seen(20, warn("slow 17"))
	id := a.Rules(at(0))[0].ID
	if a.Remove("noise_000000000000") || !a.Remove(id) || a.Remove(id) {
		t.Error("remove reports whether there was a rule")
	}
	a = restored(t, a)
	log(a, warn("slow 17"), 1)
	if found := a.Detect(at(2)); found != nil || len(a.Rules(at(0))) > 0 {
		t.Errorf("it came back: %+v", found)
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
	if !ok || got.Title != "Noise found and hidden" || got.Detail != "Hidden from now on: slow <str> | /health" || got.Context["proposed"] != 1 ||
		got.Severity != alert.Info || got.Category != alert.Noise || got.Source != alert.SourceNoise || found.Len() != 3 {
		t.Errorf("got %+v", got)
	}
	if again, _ := found.Alert(); again.DedupKey != got.DedupKey || !strings.HasPrefix(got.DedupKey, "noise:web:noise_") {
		t.Errorf("keys %q, %q", got.DedupKey, again.DedupKey)
	}
	only := noise.New("web", ruleset.NoiseSpec)
	for range 10 {
		log(only, warn("retry 5"), 0)
	}
	proposed := only.Detect(at(0))
	if _, ok := proposed.Alert(); ok || proposed.Len() != 1 || len(only.Rules(at(0))) != 1 {
		t.Errorf("a proposal is found and listed, but not announced: %+v", proposed)
	}
	var none *noise.Found
	if _, ok := none.Alert(); ok {
		t.Error("nothing was found")
	}
}

// TestAlertOfMany: what is hidden and finds no room in the announcement is not passed
// over.
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
		t.Errorf("%d are named in %d bytes: %+v", named, len(got.Detail), got)
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
		t.Errorf("%d patterns, %d evicted", a.Patterns(), a.Evicted())
	}

	a = noise.New("web", ruleset.NoiseSpec)
	for range 20 {
		for i := range noise.MaxRules + 3 {
			log(a, warn("line "+letters(i)), 0)
		}
	}
	if found := a.Detect(at(0)); len(found.Applied) != noise.MaxRules || a.LeftOut() != 3 {
		t.Errorf("%d rules, %d left out", found.Len(), a.LeftOut())
	}
	if found := a.Detect(at(time.Minute)); found != nil {
		t.Errorf("rules in use must stay: %+v", found)
	}
	for range 20 {
		log(a, warn("newcomer"), time.Hour)
	}
	if found := a.Detect(at(time.Hour)); found.Len() != 1 || len(a.Rules(at(0))) != noise.MaxRules {
		t.Errorf("an idle rule makes room: %+v of %d", found, len(a.Rules(at(0))))
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
		t.Errorf("the same rule was doubled: %v", ids)
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
			t.Errorf("%+v: %v", tt, got)
		}
	}
	var hidden []uint64
	for _, r := range m.Rules("", at(0)) {
		hidden = append(hidden, r.Hidden)
	}
	if !slices.Equal(hidden, []uint64{1, 1, 2}) || len(m.Rules("api", at(0))) != 2 {
		t.Errorf("hidden %v", hidden)
	}
	if !m.Remove(ids[0]) || m.Remove(ids[0]) || m.Hides("web", telemetry.KindLog, noise.Sighting{Text: "deprecated"}, at(0)) {
		t.Error("remove")
	}
	for i := range noise.MaxManual - 2 {
		if _, err := m.Add(add("", "", fmt.Sprint("pattern ", i)), at(0)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Add(add("", "", "one more"), at(0)); !errors.Is(err, noise.ErrFull) {
		t.Errorf("got %v", err)
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
			t.Errorf("%+v: %v", tt.c, got)
		}
	}
}

// However lines come: the rule is exactly what counting all of them gives, and
// a restart in between changes nothing.
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
					t.Fatalf("%+v", rules[0])
				}
			}
			// A run of auto-detection within a burst may have seen more than the
			// one at its end, and less of it is never taken back.
			if got < want {
				t.Fatalf("confidence %d, want %d", got, want)
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
		t.Fatal("size", again.Size(), "was", a.Size())
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
