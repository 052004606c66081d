package inbox_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestSilencedWhilePending(t *testing.T) {
	b := inbox.New()
	for i, key := range []string{"a", "b", "a", "c"} {
		b.Offer(made(key, i))
	}
	if a, found := b.Find("a0"); !found || a.ID != "a2" || a.Occurrences() != 2 {
		t.Errorf("by the id of what was merged: %+v", a)
	}
	if a, found := b.Find("d1"); found {
		t.Errorf("found %+v", a)
	}
	heard := map[string]int{}
	b.SuppressWhere(func(a alert.Alert, offers int) bool { heard[a.DedupKey] += offers; return a.DedupKey == "a" })
	if got := fmt.Sprint(heard); got != "map[a:2 b:1 c:1]" {
		t.Errorf("asked of %s", got)
	}
	b.Suppress(made("x", 4))
	if want := (inbox.Stats{Offered: 5, Silenced: 3}); b.Stats() != want || b.Len() != 2 {
		t.Errorf("%+v, %d left", b.Stats(), b.Len())
	}
	b.Offer(made("a", 5))
	if a, found := b.Find("a5"); !found || a.Count != 0 {
		t.Errorf("what comes later begins anew: %+v", a)
	}
}

// TestHeldBackResolution: what pended before a silence is not told as if it went
// on, only because its end was held back.
func TestHeldBackResolution(t *testing.T) {
	b := inbox.New()
	b.Offer(made("a", 0))
	over := made("a", 1)
	over.Severity, over.Resolves = alert.Info, "a0"
	b.Suppress(over)
	pending := b.Pending()
	if want := (inbox.Stats{Offered: 2, Silenced: 1}); b.Stats() != want || len(pending) != 1 || !pending[0].Resolved || !strings.HasPrefix(pending[0].Title, "Resolved: ") {
		t.Errorf("%+v %+v", b.Stats(), pending)
	}
	unknown := over
	unknown.ID, unknown.Resolves = "a2", "other"
	b.Suppress(unknown)
	if b.Len() != 1 {
		t.Errorf("told of %+v", b.Pending())
	}
}

// TestEveryAlertIsAccountedFor: whatever is offered, held back, silenced,
// drained and cleared.
func TestEveryAlertIsAccountedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := inbox.New()
		keys := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		var handed uint64
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			key := keys.Draw(t, "key")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				b.SuppressWhere(func(a alert.Alert, _ int) bool { return a.DedupKey == key })
			case 1:
				b.Suppress(made(key, i))
			case 2:
				for _, a := range b.Take(all) {
					handed += uint64(a.Occurrences())
				}
			default:
				b.Offer(made(key, i))
			}
			var pends uint64
			for _, a := range b.Pending() {
				pends += uint64(a.Occurrences())
			}
			if s := b.Stats(); s.Offered != handed+pends+s.Silenced {
				t.Fatalf("%d were handed over and %d pend: %+v", handed, pends, s)
			}
		}
	})
}
