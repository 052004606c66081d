package noise_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var people = strings.Fields("alice bob carol dave erin frank grace heidi ivan judy mallory niaj olivia peggy rupert sybil trent victor walter zoe")

// day is an app with mined rules over time. It is restarted after each step.
type day struct {
	t     *testing.T
	app   *noise.App
	now   time.Duration
	found []string // the rules that were applied or proposed
}

func newDay(t *testing.T) *day {
	return &day{t: t, app: noise.New("web", ruleset.Mined)}
}

// say logs a line once for each person, whose name replaces NAME, and returns how many of
// the lines were hidden.
func (d *day) say(level telemetry.Level, line string, who []string) (hidden int) {
	for _, name := range who {
		h, found := log(d.app, &telemetry.Log{Level: level, Message: strings.ReplaceAll(line, "NAME", name)}, d.now)
		d.note(found)
		if h {
			hidden++
		}
	}
	d.app = restoredBy(d.t, d.app, ruleset.Mined)
	return hidden
}

func (d *day) note(found *noise.Found) {
	if found != nil {
		for _, p := range found.Applied {
			d.found = append(d.found, "applied: "+p)
		}
		for _, p := range found.Proposed {
			d.found = append(d.found, "proposed: "+p)
		}
	}
}

// detect runs auto-detection, and returns the rules found since the last call.
func (d *day) detect() string {
	d.note(d.app.Detect(at(d.now)))
	found := strings.Join(d.found, ", ")
	d.found = nil
	return found
}

// rules lists the rules with the number of their lines.
func (d *day) rules() (all []string) {
	for _, r := range d.app.Rules(at(d.now)) {
		all = append(all, fmt.Sprintf("%s: %s *%d", r.State, r.Pattern, r.Hidden+r.WouldHide))
	}
	return all
}

func (d *day) expect(what string, got, want any) {
	d.t.Helper()
	if !reflect.DeepEqual(got, want) {
		d.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestMinedRules(t *testing.T) {
	const line = "user NAME signed in"
	d := newDay(t)
	d.say("info", line, people[:9])
	d.expect("9 lines", d.detect(), "")
	d.say("warn", line, people[9:12])
	d.expect("12 lines", d.detect(), "proposed: user <*> signed in")
	d.expect("a proposal hides", d.say("info", line, people[:7]), 0)
	d.expect("19 lines", d.detect(), "")
	d.expect("what it would have hidden", d.rules(), []string{"proposed: user <*> signed in *19"})
	d.say("info", line, people[:1])
	d.expect("20 lines", d.detect(), "applied: user <*> signed in")
	d.expect("also who was never seen", d.say("info", line, []string{"yvonne", "alice"}), 2)
	d.expect("not in other words", d.say("info", "user NAME signed out", people[:1]), 0)
	d.expect("an error", d.say("error", line, people), 0)
	d.now = time.Hour
	d.expect("for good", d.say("debug", line, people[:1]), 1)
	r := d.app.Rules(at(d.now))
	d.expect("rules", d.rules(), []string{"applied: user <*> signed in *3"})
	want := query.NoiseRule{
		ID: r[0].ID, App: "web", State: "applied", Kind: telemetry.KindLog, Pattern: "user <*> signed in", Confidence: 0.9,
		Hidden: 3, HiddenLast10Min: 1, ByLevel: map[telemetry.Level]uint64{"info": 2, "debug": 1},
		Example: r[0].Example, Examples: r[0].Examples, Since: at(0), LastSeen: at(time.Hour),
	}
	if diff := cmp.Diff(want, r[0], cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("rule (-want +got):\n%s", diff)
	}
	if r[0].Example == "" || len(r[0].Examples) != 3 {
		t.Errorf("example %q, examples %q, want one, and 3", r[0].Example, r[0].Examples)
	}
	d.expect("lines that are hidden are not counted", d.app.Patterns(), 12)
}

// TestAWiderRuleIsAnother checks that a rule never hides more than its announced template.
func TestAWiderRuleIsAnother(t *testing.T) {
	d := newDay(t)
	d.say("info", "user NAME signed in from eu", people)
	d.expect("found", d.detect(), "applied: user <*> signed in from eu")
	d.expect("that", d.say("info", "user NAME signed in from eu", people), 20)
	d.now += time.Minute
	for i, region := range []string{"us", "ap", "af", "sa", "oc"} {
		d.expect(region, d.say("info", "user NAME signed in from "+region, people[3*i:3*i+3]), 0)
	}
	d.expect("a wider one is proposed", d.detect(), "proposed: user <*> signed in from <*>")
	d.expect("and hides", d.say("info", "user NAME signed in from us", people[:8]), 0)
	d.expect("while the narrow one does", d.say("info", "user NAME signed in from eu", people[:1]), 1)
	d.expect("then it is announced", d.detect(), "applied: user <*> signed in from <*>")
	d.expect("it takes over", d.rules(), []string{"applied: user <*> signed in from <*> *21"})
	d.expect("and hides", d.say("info", "user NAME signed in from us", people)+d.say("info", "user NAME signed in from eu", people), 40)
}

func TestExactRulesAreTakenOver(t *testing.T) {
	d := newDay(t)
	d.say("info", "user NAME signed in", slices.Repeat(people[:1], 20))
	d.expect("one message", d.detect(), "applied: user alice signed in")
	d.say("info", "user NAME signed in", people)
	d.expect("many", d.detect(), "applied: user <*> signed in")
	d.expect("rules", d.rules(), []string{"applied: user <*> signed in *1"})
}

// TestLists checks lines that contain a list of varying length.
func TestLists(t *testing.T) {
	d := newDay(t)
	for _, list := range []string{"NAME", "NAME, xNAME", "NAME, xNAME and yNAME", "NAME, xNAME, yNAME and zNAME"} {
		d.say("info", "signed out: "+list+" of the day shift", people[:5])
	}
	d.expect("found", d.detect(), "applied: signed out <...> of the day shift")
	d.expect("longer ones are hidden", d.say("info", "signed out: a, b, c, d, e, f, NAME of the day shift", people), 20)
	d.expect("others aren't", d.say("info", "signed out: NAME of the night shift", people), 0)
}

// TestWidestIsAnnounced checks that of rules found at the same time only the widest is
// announced.
func TestWidestIsAnnounced(t *testing.T) {
	d := newDay(t)
	d.say("info", "user NAME did main today", slices.Repeat(people, 3))
	for i := range 25 {
		d.say("info", "user NAME did "+letters(i)+" today", people[i%20:i%20+1])
	}
	d.expect("found", d.detect(), "applied: user <*> did <*> today")
}

// TestIdleRulesMakeRoom checks that a new rule replaces an idle one, but none in use.
func TestIdleRulesMakeRoom(t *testing.T) {
	d := newDay(t)
	d.say("info", "user NAME signed in", people)
	d.expect("found", d.detect(), "applied: user <*> signed in")
	for i := range noise.MaxRules - 1 {
		d.say("info", "tick "+letters(i), slices.Repeat(people[:1], 20))
	}
	d.detect()
	d.now = 11 * time.Minute
	d.say("info", "user NAME signed in", people)
	d.say("info", "tock", people)
	d.expect("found", d.detect(), "applied: tock")
	d.expect("hidden", d.say("info", "user NAME signed in", people), 20)
}

func TestShortLinesCountAsTheyAre(t *testing.T) {
	d := newDay(t)
	d.say("info", "NAME signed in", people)
	d.say("info", "tick", slices.Repeat(people[:1], 20))
	d.expect("found", d.detect(), "applied: tick")
}

func TestErrorsOfTools(t *testing.T) {
	const line = "[vite] failed to load NAME again"
	d := newDay(t)
	d.say("warn", line, people)
	d.expect("below error", d.detect(), "applied: [vite] failed to load <*> again")
	d.expect("errors", d.say("error", line, people), 0)
	d.expect("errors count among themselves", d.detect(), "applied: [vite] failed to load <*> again")
	d.expect("errors", d.say("error", line, people), 20)
	d.expect("warnings", d.say("warn", line, people[:2]), 2)
	for _, r := range d.app.Rules(at(d.now)) {
		if want := r.ByLevel["error"]; r.AlertsHeld != want || r.Hidden != 20 && r.Hidden != 2 {
			t.Errorf("rule = %+v, want %d alerts held, 20 or 2 lines hidden", r, want)
		}
	}
}

// TestRemovedMinedRules checks that no found rule hides lines of a removed one, be it wider,
// narrower or overlapping, until a person restores it.
func TestRemovedMinedRules(t *testing.T) {
	d := newDay(t)
	d.say("info", "user NAME signed in from eu", people)
	d.detect()
	id := d.app.Rules(at(0))[0].ID
	d.expect("removed", d.app.Remove(id), true)
	for _, region := range []string{"eu", "us", "ap", "af", "sa"} {
		d.say("info", "user NAME signed in from "+region, people)
	}
	d.say("info", "user NAME signed in from eu", slices.Repeat(people[:1], 30))
	d.expect("found", d.detect(), "")
	d.expect("hidden", d.say("info", "user NAME signed in from eu", people), 0)
	d.say("info", "user NAME signed out of eu", people)
	d.expect("others are found", d.detect(), "applied: user <*> signed out of eu")
	removed := d.app.Removed()
	d.expect("list", removed, []query.RemovedRule{{ID: id, App: "web", Kind: "log", Pattern: "user <*> signed in from eu"}})

	d.expect("brought back", d.app.Accept(id, at(d.now)), true)
	d.expect("hides", d.say("info", "user NAME signed in from eu", people), 20)
	d.expect("list", len(d.app.Removed()), 0)
	d.expect("then a wider one may come", d.detect(), "applied: user <*> signed in from <*>")
}

func TestAccept(t *testing.T) {
	for _, by := range []ruleset.Noise{ruleset.NoiseSpec, ruleset.Mined} {
		a := noise.New("web", by)
		for range 12 {
			log(a, warn("slow 17"), 0)
		}
		a.Detect(at(0))
		r := a.Rules(at(0))[0]
		if r.State != "proposed" || r.WouldHideLast10Min != 12 || r.WouldHide != 12 || r.WouldHoldAlerts != 0 {
			t.Errorf("rule = %+v, want it proposed, to hide 12 lines and no alert", r)
		}
		accept := func(id string, ms time.Duration, want bool) {
			t.Helper()
			if got := a.Accept(id, at(ms*time.Millisecond)); got != want {
				t.Errorf("Accept(%s) = %v, want %v", id, got, want)
			}
		}
		wantHidden := func(ms time.Duration, want bool) {
			t.Helper()
			if got, _ := log(a, warn("slow 18"), ms*time.Millisecond); got != want {
				t.Errorf("line after %d ms is hidden: %v, want %v", ms, got, want)
			}
		}
		accept(r.ID, 1, true)
		accept(r.ID, 2, true)
		accept("noise_0", 1, false)
		a = restoredBy(t, a, by)
		wantHidden(3, true)
		if !a.Remove(r.ID) {
			t.Error("Remove = false, want true")
		}
		a = restoredBy(t, a, by)
		if got := a.Removed(); len(got) != 1 || got[0].Pattern != "slow <n>" {
			t.Errorf("removed rules = %+v, want slow <n>", got)
		}
		wantHidden(4, false)
		accept(r.ID, 5, true)
		a = restoredBy(t, a, by)
		wantHidden(6, true)
		if got := a.Removed(); len(got) > 0 {
			t.Errorf("removed rules after Accept = %+v, want none", got)
		}
		if r := a.Rules(at(6))[0]; r.Confidence != 0.82 || r.Hidden != 1 || !r.Since.Equal(at(5*time.Millisecond)) {
			t.Errorf("restored rule = %+v, want confidence 0.82, 1 line hidden, since %v", r, at(5*time.Millisecond))
		}
	}
}

// TestWhatLedToAProposal checks that a proposed rule counts the lines of the last 10 minutes
// that led to it, in any order of the templates.
func TestWhatLedToAProposal(t *testing.T) {
	for _, backwards := range []bool{false, true} {
		a := noise.New("web", ruleset.Mined)
		for i := range 14 {
			name := people[i]
			if backwards {
				name = people[19-i]
			}
			log(a, fail("[vite] cannot load "+name+" now"), time.Duration(i)*45*time.Second)
		}
		a = restoredBy(t, a, ruleset.Mined)
		r := a.Rules(at(599 * time.Second))
		if len(r) != 1 || r[0].WouldHide != 14 || r[0].WouldHoldAlerts != 14 || r[0].WouldHideLast10Min < 12 {
			t.Errorf("backwards %v: rules = %+v, want one that would hide 14 lines and alerts, at least 12 in 10 min", backwards, r)
		}
	}
}

// TestWhatARuleShows checks the counts and examples of a rule about health checks.
func TestWhatARuleShows(t *testing.T) {
	a := noise.New("web", ruleset.NoiseSpec)
	check := func(n int, severity alert.Severity, d time.Duration) {
		for i := range n {
			url := fmt.Sprintf("http://localhost/health?n=%d", i)
			a.Request(url, template.AppendPage(nil, url), severity, at(d))
		}
	}
	check(20, alert.Error, 0)
	a.Detect(at(time.Millisecond))
	check(7, "", time.Second)
	check(3, alert.Error, time.Minute)
	check(1, "", 9*time.Minute)
	a = restored(t, a)
	for now, last := range map[time.Duration]uint64{9 * time.Minute: 11, 10*time.Minute + 30*time.Second: 4, 15 * time.Minute: 1, time.Hour: 0, 0: 7} {
		if r := a.Rules(at(now))[0]; r.Hidden != 11 || r.AlertsHeld != 3 || r.HiddenLast10Min != last || len(r.ByLevel) > 0 {
			t.Errorf("after %v: rule = %+v, want 11 hidden, %d in 10 min, 3 alerts held, no levels", now, r, last)
		}
	}
	wantExamples := func(name string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, a.Rules(at(0))[0].Examples); diff != "" {
			t.Errorf("%s examples (-want +got):\n%s", name, diff)
		}
	}
	wantExamples("the first", "http://localhost/health?n=0")
	for i := range 4 {
		url := fmt.Sprintf("http://localhost/health?next=%d\x1b", i)
		a.Request(url, template.AppendPage(nil, url), "", at(10*time.Minute+time.Duration(i)*time.Second))
	}
	wantExamples("the first three", "http://localhost/health?n=0", "http://localhost/health?next=0␛", "http://localhost/health?next=1␛")
	check(1, "", 20*time.Minute)
	a.Request("/health", []byte("/health"), "", at(21*time.Minute))
	wantExamples("the newest", "http://localhost/health?next=0␛", "http://localhost/health?next=1␛", "/health")
}

// TestModes checks that a state can be read under another noise rule, without the patterns
// and rules that only its own noise rule makes.
func TestModes(t *testing.T) {
	a := noise.New("web", ruleset.Mined)
	for _, name := range people {
		log(a, warn("user "+name+" signed in"), 0)
		log(a, warn("slow 17"), 0)
		log(a, fail("[vite] lost connection"), 0)
	}
	a.Detect(at(0))
	for _, r := range a.Rules(at(0)) {
		if r.Pattern != "slow <n>" {
			continue
		}
		a.Remove(r.ID)
	}
	if n := len(a.Rules(at(0))); n != 2 {
		t.Fatalf("%d rules, want 2", n)
	}
	spec := noise.New("web", ruleset.NoiseSpec)
	snapshottest.Read(t, snapshottest.Write(a), spec)
	if got := spec.Rules(at(0)); len(got) != 0 || len(spec.Removed()) != 1 {
		t.Errorf("under spec: rules = %+v, removed %+v, want no rules, 1 removed", got, spec.Removed())
	}
	if hidden, _ := log(spec, warn("user alice signed in"), 1); hidden {
		t.Error("under spec a mined rule hides a line, want it shown")
	}
	again := restoredBy(t, spec, ruleset.NoiseSpec)
	mined := noise.New("web", ruleset.Mined)
	snapshottest.Read(t, snapshottest.Write(again), mined)
	if got := len(mined.Removed()); got != 1 {
		t.Errorf("back with the mined rule: %d removed rules, want 1", got)
	}
}

// TestSameLinesSameRules checks, on any lines and commands, that restarts make no
// difference, that lines of level error are hidden only if a tool wrote them, and that each
// hidden line matches an announced rule.
func TestSameLinesSameRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, two := noise.New("web", ruleset.Mined), noise.New("web", ruleset.Mined)
		now := time.Duration(0)
		announced := map[string]bool{}
		note := func(found, other *noise.Found) {
			if !reflect.DeepEqual(found, other) {
				t.Fatalf("with restarts found %+v, want %+v", other, found)
			}
			if found != nil {
				for _, p := range found.Applied {
					announced[p] = true
				}
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				now += rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute}).Draw(t, "gap")
			case 1:
				note(one.Detect(at(now)), two.Detect(at(now)))
			case 2:
				if all := one.Rules(at(now)); len(all) > 0 {
					id := all[rapid.IntRange(0, len(all)-1).Draw(t, "rule")].ID
					if got, want := two.Remove(id), one.Remove(id); got != want {
						t.Fatalf("with restarts Remove = %v, want %v", got, want)
					}
				}
			case 3:
				ids := []string{}
				for _, r := range one.Rules(at(now)) {
					ids = append(ids, r.ID)
				}
				for _, r := range one.Removed() {
					ids = append(ids, r.ID)
				}
				if len(ids) > 0 {
					id := rapid.SampledFrom(ids).Draw(t, "rule")
					if got, want := two.Accept(id, at(now)), one.Accept(id, at(now)); got != want {
						t.Fatalf("with restarts Accept = %v, want %v", got, want)
					}
					for _, r := range one.Rules(at(now)) {
						if r.ID == id {
							announced[r.Pattern] = true
						}
					}
				}
			default:
				words := rapid.SampledFrom([]string{"user NAME signed in", "user NAME signed in from NAME", "user alice signed in from NAME", "[vite] cannot load NAME now", "NAME", "job NAME in queue=NAME done",
					"it is done with NAME for today", "it is done with NAME, NAME for today", "it is done with NAME, NAME, NAME for today", "it is done with NAME and NAME but NAME for today"}).Draw(t, "words")
				level := rapid.SampledFrom([]telemetry.Level{"debug", "info", "warn", "error"}).Draw(t, "level")
				r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				for range rapid.IntRange(1, 25).Draw(t, "n") {
					message := words
					for strings.Contains(message, "NAME") {
						message = strings.Replace(message, "NAME", people[r.IntN(len(people))], 1)
					}
					l := &telemetry.Log{Level: level, Message: message}
					hidden, found := log(one, l, now)
					other, alike := log(two, l, now)
					note(found, alike)
					if hidden != other {
						t.Fatalf("with restarts %q is hidden: %v, want %v", message, other, hidden)
					}
					if hidden && level == telemetry.LevelError && !strings.HasPrefix(message, "[vite]") {
						t.Fatalf("the app's error %q is hidden, want it shown", message)
					}
					if hidden && !slices.ContainsFunc(one.Rules(at(now)), func(r query.NoiseRule) bool {
						return r.State == "applied" && announced[r.Pattern] && like(r.Pattern, message)
					}) {
						t.Fatalf("%q is hidden by rules %+v, want an announced one that matches it", message, one.Rules(at(now)))
					}
				}
			}
			if rapid.Bool().Draw(t, "restart") {
				two = restoredBy(t, two, ruleset.Mined)
			}
		}
		if one.Size() != two.Size() {
			t.Fatalf("size with restarts = %d bytes, want %d", two.Size(), one.Size())
		}
		for _, gone := range one.Removed() {
			for _, r := range one.Rules(at(now)) {
				if r.ID == gone.ID {
					t.Fatalf("rule %+v is in both lists, want it in that of removed rules only", r)
				}
			}
		}
	})
}

// like reports whether a message matches a pattern, word by word.
func like(pattern, message string) bool {
	if before, behind, list := strings.Cut(pattern, " <...>"); list {
		return len(message) > len(before)+len(behind) && strings.HasPrefix(message, before) && strings.HasSuffix(message, behind)
	}
	p, m := strings.Fields(pattern), strings.Fields(message)
	for i := range p {
		before, after, hole := strings.Cut(p[i], "<*>")
		if len(p) != len(m) || !hole && p[i] != m[i] || hole && !(strings.HasPrefix(m[i], before) && strings.HasSuffix(m[i], after)) {
			return false
		}
	}
	return true
}

// TestFloods checks the memory for senders whose lines are all different, of one kind or of
// none.
func TestFloods(t *testing.T) {
	for name, line := range map[string]func(i int) string{
		"of one kind": func(i int) string { return "user " + letters(i) + " signed in" },
		"of none":     func(i int) string { return letters(i) + " " + letters(i*7) + " " + letters(i*13) + " " + letters(i*31) },
		"long":        func(i int) string { return strings.Repeat(letters(i)+" ", 40) },
		"many kinds":  func(i int) string { return "user " + letters(i) + " did " + letters(i%1000) + " and left" },
	} {
		a := noise.New("web", ruleset.Mined)
		most := 0
		for i := range 20_000 {
			log(a, warn(line(i)), time.Duration(i)*20*time.Millisecond)
			most = max(most, a.Size())
		}
		a.Detect(at(20_000 * 20 * time.Millisecond))
		t.Logf("%s: %d patterns, %d rules, %d kB at most", name, a.Patterns(), len(a.Rules(at(0))), most>>10)
		if a.Patterns() > noise.MaxPatterns || len(a.Rules(at(0))) > noise.MaxRules || most > 4<<20 {
			t.Errorf("%s: %d patterns, %d rules, %d bytes, want at most %d, %d, %d", name, a.Patterns(), len(a.Rules(at(0))), most, noise.MaxPatterns, noise.MaxRules, 4<<20)
		}
		restoredBy(t, a, ruleset.Mined) // checks the size
	}
}

// BenchmarkMined measures the cost of one line, with the scanner: one that is hidden, one
// that is counted by itself, and lines that are all different.
func BenchmarkMined(b *testing.B) {
	for _, bm := range []struct {
		name string
		line func(i int) string
	}{
		{"hidden", func(i int) string { return "user " + people[i%20] + " opened page /shop/cart after 1234 ms" }},
		{"known", func(int) string { return "the disk of this machine is 81% full, which is much" }},
		{"all different", func(i int) string { return "nothing " + letters(i) + " like " + letters(i*7) }},
	} {
		b.Run(bm.name, func(b *testing.B) {
			a := noise.New("web", ruleset.Mined)
			lines := make([]telemetry.Log, 1<<14)
			for i := range lines {
				lines[i] = *warn(bm.line(i))
			}
			for i := range 20 {
				log(a, warn("user "+people[i]+" opened page /shop/cart after 1234 ms"), 0)
				log(a, warn("job "+people[i]+" opened page /shop/cart after 1234 ms"), 0)
			}
			a.Detect(at(0))
			b.ReportAllocs()
			var buf []byte
			i := 0
			for b.Loop() {
				l := &lines[i%len(lines)]
				i++
				buf = template.Append(buf[:0], l.Message)
				a.Log(l, false, buf, at(time.Duration(i)*time.Millisecond))
			}
		})
	}
}

// FuzzRestore checks that any state that is accepted can be used and written.
func FuzzRestore(f *testing.F) {
	a := noise.New("web", ruleset.Mined)
	for _, name := range people {
		log(a, warn("user "+name+" signed in"), 0)
		log(a, fail("[vite] "+name+" is not there"), 0)
		log(a, warn("slow 17"), 0)
	}
	a.Detect(at(0))
	a.Remove(a.Rules(at(0))[0].ID)
	f.Add(snapshottest.Write(a))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := noise.New("web", ruleset.Mined)
		if snapshot.Read(data, a.State) != nil {
			return
		}
		for _, name := range people {
			log(a, warn("user "+name+" signed in"), time.Minute)
		}
		a.Detect(at(time.Minute))
		for _, gone := range a.Removed() {
			a.Accept(gone.ID, at(time.Minute))
		}
		for _, rule := range a.Rules(at(time.Minute)) {
			a.Remove(rule.ID)
		}
		if n := len(a.Rules(at(time.Minute))); n > 0 {
			t.Errorf("%d rules are left after removing all, want none", n)
		}
		snapshottest.Write(a)
	})
}
