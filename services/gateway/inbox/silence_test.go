package inbox_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		t.Errorf("Find by the id of a merged alert = %s of count %d, %t, want a2 of count 2, true", a.ID, a.Occurrences(), found)
	}
	if a, found := b.Find("d1"); found {
		t.Errorf("Find of an unknown id = %+v, want none", a)
	}
	offers := map[string]int{}
	b.SuppressWhere(func(a alert.Alert, n int) bool { offers[a.DedupKey] += n; return a.DedupKey == "a" })
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 1, "c": 1}, offers); diff != "" {
		t.Errorf("offers of each key (-want +got):\n%s", diff)
	}
	b.Suppress(made("x", 4))
	if diff := cmp.Diff(inbox.Stats{Offered: 5, Silenced: 3}, b.Stats()); diff != "" {
		t.Errorf("Stats (-want +got):\n%s", diff)
	}
	if b.Len() != 2 {
		t.Errorf("%d pending, want 2", b.Len())
	}
	b.Offer(made("a", 5))
	if a, found := b.Find("a5"); !found || a.Count != 0 {
		t.Errorf("Find of an alert after the silenced ones = count %d, %t, want 0, true", a.Count, found)
	}
}

// TestSuppressedResolution: an alert that was pending before a silence is marked
// resolved, although its resolution is suppressed.
func TestSuppressedResolution(t *testing.T) {
	b := inbox.New()
	b.Offer(made("a", 0))
	end := made("a", 1)
	end.Severity, end.Resolves = alert.Info, "a0"
	b.Suppress(end)
	if diff := cmp.Diff(inbox.Stats{Offered: 2, Silenced: 1}, b.Stats()); diff != "" {
		t.Errorf("Stats (-want +got):\n%s", diff)
	}
	pending := b.Pending()
	if len(pending) != 1 {
		t.Fatalf("%d pending, want 1", len(pending))
	}
	if a := pending[0]; !a.Resolved || !strings.HasPrefix(a.Title, "Resolved: ") {
		t.Errorf("pending alert %q, resolved %t, want it marked resolved", a.Title, a.Resolved)
	}
	unknown := end
	unknown.ID, unknown.Resolves = "a2", "other"
	b.Suppress(unknown)
	if b.Len() != 1 {
		t.Errorf("%d pending after the suppressed resolution of an unknown alert, want 1", b.Len())
	}
}

// TestEveryAlertIsCounted offers, suppresses and takes at random.
func TestEveryAlertIsCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := inbox.New()
		keys := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		var taken uint64
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			key := keys.Draw(t, "key")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				b.SuppressWhere(func(a alert.Alert, _ int) bool { return a.DedupKey == key })
			case 1:
				b.Suppress(made(key, i))
			case 2:
				for _, a := range b.Take(all) {
					taken += uint64(a.Occurrences())
				}
			default:
				b.Offer(made(key, i))
			}
			var pending uint64
			for _, a := range b.Pending() {
				pending += uint64(a.Occurrences())
			}
			if s := b.Stats(); s.Offered != taken+pending+s.Silenced {
				t.Fatalf("%d offered, want the sum of %d taken, %d pending and %d silenced", s.Offered, taken, pending, s.Silenced)
			}
		}
	})
}
