package notifier_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestProperties plays any alerts at any times, with a timer that may be late,
// and checks what holds always.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		throttle := rapid.SampledFrom([]int{1, 2, 5, 60}).Draw(t, "throttle")
		keys := rapid.SampledFrom([]int{3, 20, 300}).Draw(t, "keys")
		pauses := rapid.SampledFrom([]int{50, 1000, 6000, 40000}).Draw(t, "pauses")
		p := &player{Notifier: notifier.New()}
		least := rapid.SampledFrom([]alert.Severity{alert.Info, alert.Warning}).Draw(t, "severity_min")
		p.Enable(notifier.Config{Events: []string{"errors"}, ThrottleSeconds: throttle, SeverityMin: least})

		now := start
		var before []alert.Alert
		newest := make(map[string]alert.Alert) // by key, of what has not ended
		ended := make(map[string]alert.Alert)  // by key, the last end
		lost := make(map[string]bool)          // the keys of what was dropped or silenced
		offered := rapid.IntRange(0, 400).Draw(t, "alerts")
		for i := range offered {
			now = now.Add(time.Duration(rapid.IntRange(0, pauses).Draw(t, "pause")) * time.Millisecond)
			key := rapid.IntRange(1, keys).Draw(t, "key")
			a := made(fmt.Sprint(key))
			a.Severity = rapid.SampledFrom(alert.Severities()).Draw(t, "severity")
			a.Category = []alert.Category{alert.Errors, alert.Errors, alert.Threshold, alert.Errors, alert.CI}[key%5]
			if i > 0 && rapid.IntRange(0, 9).Draw(t, "revises") == 0 {
				// A revision has the key and the severity of what it revises.
				a = before[i-1-rapid.IntRange(0, i-1).Draw(t, "of")]
				a.Revises = a.ID
			}
			if of, ok := newest[a.DedupKey]; a.Revises == "" && ok && rapid.IntRange(0, 3).Draw(t, "resolves") == 0 {
				a.Resolves, a.Category, a.Severity = of.ID, of.Category, alert.Info
			}
			a.ID = fmt.Sprint("id", i)
			switch {
			case a.Resolves != "":
				delete(newest, a.DedupKey)
				if a.Category == alert.Threshold && a.Revises == "" {
					a.DedupKey += normal
				}
				if a.Revises == "" {
					ended[finding(a)] = a
				}
			case a.Revises == "":
				newest[a.DedupKey] = a
				delete(ended, a.DedupKey)
			}
			before = append(before, a)
			if rapid.IntRange(0, 9).Draw(t, "late") > 0 {
				p.until(now)
			}
			dropped := p.Stats().Dropped
			p.out = append(p.out, p.Offer(a, now)...)
			lost[finding(a)] = lost[finding(a)] || p.Stats().Dropped > dropped
			if rapid.IntRange(0, 29).Draw(t, "silence") == 0 {
				lost[finding(a)] = true
				p.SuppressWhere(func(pending alert.Alert) bool { return finding(pending) == finding(a) })
			}
			checkCounts(t, p, i+1)
			if due, ok := p.Next(); ok && due.Sub(now) > time.Minute {
				t.Fatalf("a batch at %v waits %v", now.Sub(start), due.Sub(now))
			}
		}
		p.until(now.Add(time.Hour))
		if p.Stats().Pending != 0 {
			t.Fatalf("alerts pend for ever: %+v", p.Stats())
		}
		checkPace(t, p.out, time.Duration(throttle)*time.Second)
		checkDuplicates(t, p.out)
		checkEnds(t, p.out)
		over := toldOver(p.out)
		passes := func(a alert.Alert) bool {
			return a.Category != alert.CI && a.Severity.Rank() >= least.Rank() && !lost[finding(a)]
		}
		for key, a := range newest {
			if last, told := over[key]; passes(a) && (last || !told) {
				t.Fatalf("%s was raised last, and was told last to be over", key)
			}
		}
		for key, a := range ended {
			if last, told := over[key]; passes(a) && told && !last {
				t.Fatalf("%s ended last, and was told last to be raised", key)
			}
		}
	})
}

// normal is behind the key of a threshold's end, which is another state.
const normal = " normal"

// finding is the key of what an alert is about.
func finding(a alert.Alert) string { return strings.TrimSuffix(a.DedupKey, normal) }

// toldOver says by key whether the last that went out of a finding is that it is
// over. In one notification what is raised comes after ends: else it was cut to a
// line that says that it is over itself.
func toldOver(out []notifier.Notification) map[string]bool {
	over := make(map[string]bool)
	for _, n := range out {
		for _, ends := range []bool{true, false} {
			for _, a := range n.Alerts {
				if a.Over() == ends {
					over[finding(a)] = ends
				}
			}
		}
	}
	return over
}

// checkEnds: no alert goes out twice, and of none two times that it is over,
// unless its end is more than that.
func checkEnds(t *rapid.T, out []notifier.Notification) {
	told, over := make(map[string]bool), make(map[string]bool)
	for _, n := range out {
		for _, a := range n.Alerts {
			of := a.Resolves
			if a.Resolved {
				of = a.ID
			}
			if told[a.ID] || a.Over() && over[of] && a.Category == alert.Errors {
				t.Fatalf("%s is told twice, or to be over: %+v", a.ID, a)
			}
			told[a.ID] = true
			over[of] = over[of] || a.Over()
		}
	}
}

// checkCounts: every alert is accounted for, and a merged one is in a count.
func checkCounts(t *rapid.T, p *player, offered int) {
	s := p.Stats()
	if sum := s.Emitted + s.PendingOffers + s.Suppressed + s.Dropped + s.Filtered + s.Revised + s.Ignored + s.Absorbed + s.Silenced; sum != offered {
		t.Fatalf("%d of %d accounted for: %+v", sum, offered, s)
	}
	occurrences := 0
	for _, n := range p.out {
		for _, a := range n.Alerts {
			occurrences += a.Occurrences()
		}
	}
	if s.Pending > 100 || s.NotifyCount != len(p.out) || occurrences != s.Emitted {
		t.Fatalf("%d notifications of %d alerts went out: %+v", len(p.out), occurrences, s)
	}
}

// checkPace: never closer than the throttle, never 13 in 60 s.
func checkPace(t *rapid.T, out []notifier.Notification, throttle time.Duration) {
	for i, n := range out {
		if i > 0 && n.At.Sub(out[i-1].At) < throttle {
			t.Fatalf("%v after %v", n.At.Sub(start), out[i-1].At.Sub(start))
		}
		if i >= 12 && n.At.Sub(out[i-12].At) < time.Minute {
			t.Fatalf("13 from %v to %v", out[i-12].At.Sub(start), n.At.Sub(start))
		}
	}
}

// checkDuplicates: within 30 s, less the 50 ms that it may come too early, a key
// goes out again only when it got worse or its end went out. An end is not what it
// ends.
func checkDuplicates(t *rapid.T, out []notifier.Notification) {
	type sending struct {
		at   time.Time
		rank int
	}
	last := make(map[string]sending)
	for _, n := range out {
		for _, a := range n.Alerts {
			if a.Over() {
				delete(last, finding(a))
			}
		}
		for _, a := range n.Alerts {
			if a.Over() {
				continue
			}
			rank := a.Severity.Rank()
			if before, ok := last[a.DedupKey]; ok && n.At.Sub(before.at) < 30*time.Second-50*time.Millisecond && rank <= before.rank {
				t.Fatalf("%s twice within %v", a.DedupKey, n.At.Sub(before.at))
			}
			last[a.DedupKey] = sending{n.At, rank}
		}
	}
}
