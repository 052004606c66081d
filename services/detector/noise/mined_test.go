package noise_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

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

// day is an app whose templates count together, over time. It is restarted after
// each step.
type day struct {
	t    *testing.T
	app  *noise.App
	now  time.Duration
	said []string // what was announced or proposed
}

func newDay(t *testing.T) *day {
	return &day{t: t, app: noise.New("web", ruleset.Mined)}
}

// say has each of some people in the place of NAME in a line of a level, and says how
// many of the lines were hidden.
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
			d.said = append(d.said, "applied: "+p)
		}
		for _, p := range found.Proposed {
			d.said = append(d.said, "proposed: "+p)
		}
	}
}

// detect runs auto-detection, and returns what was found since the last time.
func (d *day) detect() string {
	d.note(d.app.Detect(at(d.now)))
	said := strings.Join(d.said, ", ")
	d.said = nil
	return said
}

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
	if r := r[0]; r.HiddenLast10Min != 1 || r.AlertsHeld != 0 || !r.Since.Equal(at(0)) || !r.LastSeen.Equal(at(time.Hour)) ||
		!reflect.DeepEqual(r.ByLevel, map[telemetry.Level]uint64{"info": 2, "debug": 1}) || r.Confidence != 0.9 || r.Example == "" || len(r.Examples) != 3 {
		t.Errorf("%+v", r)
	}
	d.expect("lines that are hidden are not counted", d.app.Patterns(), 12)
}

// TestAWiderRuleIsAnother: what hides is bound to what was announced.
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

// TestLists: what is said of few and of many.
func TestLists(t *testing.T) {
	d := newDay(t)
	for _, list := range []string{"NAME", "NAME, xNAME", "NAME, xNAME and yNAME", "NAME, xNAME, yNAME and zNAME"} {
		d.say("info", "signed out: "+list+" of the day shift", people[:5])
	}
	d.expect("found", d.detect(), "applied: signed out <...> of the day shift")
	d.expect("longer ones are hidden", d.say("info", "signed out: a, b, c, d, e, f, NAME of the day shift", people), 20)
	d.expect("others aren't", d.say("info", "signed out: NAME of the night shift", people), 0)
}

// TestTheWidestIsTold: what a rule covers that is found at the same time is not reported
// beside it.
func TestWidestIsAnnounced(t *testing.T) {
	d := newDay(t)
	d.say("info", "user NAME did main today", slices.Repeat(people, 3))
	for i := range 25 {
		d.say("info", "user NAME did "+letters(i)+" today", people[i%20:i%20+1])
	}
	d.expect("found", d.detect(), "applied: user <*> did <*> today")
}

// TestIdleRulesMakeRoom: and not those that hide something.
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
			t.Errorf("%+v", r)
		}
	}
}

// TestRemovedMinedRules: what a person wants to see no found rule hides, be it wider,
// narrower or crossing, until it is brought back.
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
			t.Errorf("%+v", r)
		}
		if !a.Accept(r.ID, at(1*time.Millisecond)) || !a.Accept(r.ID, at(2*time.Millisecond)) || a.Accept("noise_0", at(1*time.Millisecond)) {
			t.Error("accept reports whether there is such a rule")
		}
		a = restoredBy(t, a, by)
		if hidden, _ := log(a, warn("slow 18"), 3*time.Millisecond); !hidden {
			t.Error("an accepted rule applies")
		}
		if !a.Remove(r.ID) {
			t.Error("not removed")
		}
		a = restoredBy(t, a, by)
		if got := a.Removed(); len(got) != 1 || got[0].Pattern != "slow <n>" {
			t.Errorf("%+v", got)
		}
		if hidden, _ := log(a, warn("slow 18"), 4*time.Millisecond); hidden || !a.Accept(r.ID, at(5*time.Millisecond)) {
			t.Error("it is removed, and comes back")
		}
		a = restoredBy(t, a, by)
		if hidden, _ := log(a, warn("slow 18"), 6*time.Millisecond); !hidden || len(a.Removed()) > 0 {
			t.Error("it is back")
		}
		if r := a.Rules(at(6))[0]; r.Confidence != 0.82 || r.Hidden != 1 || !r.Since.Equal(at(5*time.Millisecond)) {
			t.Errorf("%+v", r)
		}
	}
}

// TestWhatLedToAProposal: it is what the rule would have hidden, however long ago in
// the 10 minutes and in whatever order the templates come.
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
			t.Errorf("%+v", r)
		}
	}
}

// TestWhatARuleShows: in three minutes, what a rule hid of health checks.
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
			t.Errorf("after %v %d in 10 min: %+v", now, last, r)
		}
	}
	r := a.Rules(at(0))[0]
	if want := []string{"http://localhost/health?n=0"}; !slices.Equal(r.Examples, want) {
		t.Errorf("examples %v", r.Examples)
	}
	for i := range 4 {
		url := fmt.Sprintf("http://localhost/health?next=%d\x1b", i)
		a.Request(url, template.AppendPage(nil, url), "", at(10*time.Minute+time.Duration(i)*time.Second))
	}
	r = a.Rules(at(0))[0]
	if want := []string{"http://localhost/health?n=0", "http://localhost/health?next=0␛", "http://localhost/health?next=1␛"}; !slices.Equal(r.Examples, want) {
		t.Errorf("the first three: %q", r.Examples)
	}
	check(1, "", 20*time.Minute)
	a.Request("/health", []byte("/health"), "", at(21*time.Minute))
	if r = a.Rules(at(0))[0]; !slices.Equal(r.Examples, []string{"http://localhost/health?next=0␛", "http://localhost/health?next=1␛", "/health"}) {
		t.Errorf("the newest: %q", r.Examples)
	}
}

// TestModes: a state continues under other rules; what only those know that found it is
// left out.
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
		t.Fatalf("%d rules", n)
	}
	spec := noise.New("web", ruleset.NoiseSpec)
	snapshottest.Read(t, snapshottest.Write(a), spec)
	if got := spec.Rules(at(0)); len(got) != 0 || len(spec.Removed()) != 1 {
		t.Errorf("%+v", got)
	}
	if hidden, _ := log(spec, warn("user alice signed in"), 1); hidden {
		t.Error("hidden by what the contract knows nothing of")
	}
	again := restoredBy(t, spec, ruleset.NoiseSpec)
	mined := noise.New("web", ruleset.Mined)
	snapshottest.Read(t, snapshottest.Write(again), mined)
	if got := len(mined.Removed()); got != 1 {
		t.Errorf("back with the mined rule: %d removed rules, want 1", got)
	}
}

// TestSameLinesSameRules: whatever comes, with a restart wherever one may be, the same
// is hidden and found; no line of level error is hidden unless a tool said it; and
// every line that is was announced: a rule that applies says so.
func TestSameLinesSameRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, two := noise.New("web", ruleset.Mined), noise.New("web", ruleset.Mined)
		now := time.Duration(0)
		announced := map[string]bool{}
		note := func(found, other *noise.Found) {
			if !reflect.DeepEqual(found, other) {
				t.Fatalf("found %+v, and with restarts %+v", found, other)
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
					if one.Remove(id) != two.Remove(id) {
						t.Fatal("removed")
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
					if one.Accept(id, at(now)) != two.Accept(id, at(now)) {
						t.Fatal("accepted")
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
						t.Fatalf("%q hidden: %v, and with restarts %v", message, hidden, other)
					}
					if hidden && level == telemetry.LevelError && !strings.HasPrefix(message, "[vite]") {
						t.Fatalf("an error is hidden: %q", message)
					}
					if hidden && !slices.ContainsFunc(one.Rules(at(now)), func(r query.NoiseRule) bool {
						return r.State == "applied" && announced[r.Pattern] && like(r.Pattern, message)
					}) {
						t.Fatalf("%q is hidden and nothing says so: %+v", message, one.Rules(at(now)))
					}
				}
			}
			if rapid.Bool().Draw(t, "restart") {
				two = restoredBy(t, two, ruleset.Mined)
			}
		}
		if one.Size() != two.Size() {
			t.Fatalf("%d bytes, and with restarts %d", one.Size(), two.Size())
		}
		for _, gone := range one.Removed() {
			for _, r := range one.Rules(at(now)) {
				if r.ID == gone.ID {
					t.Fatalf("%+v is removed and there", r)
				}
			}
		}
	})
}

// like reports whether a message is of a pattern, word by word.
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

// TestFloods: whoever writes ever different lines, of one kind or of none, takes no
// more memory than there is.
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
			t.Errorf("%s: %d patterns, %d rules, %d bytes", name, a.Patterns(), len(a.Rules(at(0))), most)
		}
		if restored := restoredBy(t, a, ruleset.Mined); restored.Size() != a.Size() {
			t.Errorf("%s: size", name)
		}
	}
}

// BenchmarkMined is what a line costs, with the scanner: of a kind that is hidden, one
// that is counted by itself, one that is nothing like others, and ever other ones.
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

// FuzzRestore reads what may be damaged: what is read can be used, and written.
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
			t.Errorf("%d rules can't be removed", n)
		}
		snapshottest.Write(a)
	})
}
