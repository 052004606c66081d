package inbox_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// all is a sequence that every alert is before.
const all = math.MaxUint64

var start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

// made is the n-th alert of a key, n seconds after the start.
func made(key string, n int) alert.Alert {
	return alert.Alert{
		ID: fmt.Sprintf("%s%d", key, n), Severity: alert.Error, Category: alert.Errors, App: "web",
		Title: "title of " + key, Detail: fmt.Sprintf("detail %d", n), DedupKey: key,
		Timestamp: start.Add(time.Duration(n) * time.Second), CorrelationID: key,
	}
}

func revising(a alert.Alert, id string) alert.Alert {
	a.Revises = id
	return a
}

func TestMergesOnArrival(t *testing.T) {
	b := inbox.New()
	first := made("a", 1)
	first.Count = 3
	b.Offer(first)
	b.Offer(made("b", 2))
	b.Offer(made("a", 9))
	elsewhere := made("a", 3)
	elsewhere.App = "checkout"
	b.Offer(elsewhere)

	got := b.Take(all)
	if len(got) != 3 || b.Len() != 0 {
		t.Fatalf("took %d alerts and left %d, want 3 and 0: %v", len(got), b.Len(), got)
	}
	want := made("a", 9)
	want.Count = 4
	if diff := cmp.Diff(want, got[0], cmpopts.IgnoreFields(alert.Alert{}, "ID")); diff != "" {
		t.Errorf("merged alert (-want +got):\n%s", diff)
	}
	if got[1].App != "checkout" || got[1].Count != 0 {
		t.Errorf("second alert of app %q with count %d, want %q and 0", got[1].App, got[1].Count, "checkout")
	}
	if again := b.Take(all); len(again) != 0 {
		t.Errorf("a second Take = %v, want nothing", again)
	}
}

func TestEvictsByFirstArrival(t *testing.T) {
	b := inbox.New()
	for i := range inbox.Capacity {
		b.Offer(made(fmt.Sprint("key", i), i))
	}
	for range 100 {
		b.Offer(made("key0", 200))
	}
	if b.Len() != inbox.Capacity || b.Evicted() != 0 {
		t.Fatalf("after repetitions: %d pending and %d evicted, want %d and 0", b.Len(), b.Evicted(), inbox.Capacity)
	}
	b.Offer(made("new", 100))
	pending := b.Pending()
	if b.Evicted() != 1 || len(pending) != inbox.Capacity {
		t.Fatalf("%d evicted and %d pending, want 1 and %d", b.Evicted(), len(pending), inbox.Capacity)
	}
	if first, last := pending[0].DedupKey, pending[len(pending)-1].DedupKey; first != "key1" || last != "new" {
		t.Errorf("pending from %s to %s, want from key1 to new", first, last)
	}
}

func TestRevisions(t *testing.T) {
	b := inbox.New()
	b.Offer(made("a", 1))
	b.Offer(made("b", 2))
	b.Offer(revising(made("a", 3), "a1"))
	b.Offer(revising(made("a", 4), "a1")) // a revision names the first alert
	check := func(name string, want alert.Alert) {
		t.Helper()
		if diff := cmp.Diff(want, b.Pending()[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if b.Len() != 2 {
		t.Fatalf("%d pending, want 2", b.Len())
	}
	want := made("a", 4)
	want.ID = "a1"
	check("a revision keeps place, id and count", want)
	b.Offer(made("a", 5))
	b.Offer(revising(made("a", 6), "a1"))
	want = made("a", 6)
	want.ID, want.Count = "a1", 2
	check("a revision after a repetition", want)
	b.Take(all)
	b.Offer(revising(made("a", 7), "a1"))
	if b.Len() != 0 {
		t.Errorf("%d pending after a revision of a taken alert, want 0", b.Len())
	}
	b.Offer(made("old", 1))
	for i := range inbox.Capacity {
		b.Offer(made(fmt.Sprint("key", i), i))
	}
	b.Offer(revising(made("old", 2), "old1"))
	if slices.ContainsFunc(b.Pending(), func(a alert.Alert) bool { return a.DedupKey == "old" }) {
		t.Errorf("pending = %v, want no revision of an evicted alert", b.Pending())
	}
	if diff := cmp.Diff(inbox.Stats{Offered: 59, Revised: 3, Ignored: 2, Evicted: 1}, b.Stats()); diff != "" {
		t.Errorf("Stats (-want +got):\n%s", diff)
	}
}

func TestTakeReturnsADigest(t *testing.T) {
	b := inbox.New()
	regression, anomaly, info := made("r", 1), made("a", 6), made("i", 9)
	regression.Category, anomaly.Category, info.Severity = alert.Regression, alert.Anomaly, alert.Info
	for _, a := range []alert.Alert{info, regression, anomaly} {
		b.Offer(a)
	}
	var got []string
	for _, a := range b.Take(all) {
		got = append(got, a.Title)
	}
	if diff := cmp.Diff([]string{"Correlated: title of r + title of a", "title of i"}, got); diff != "" {
		t.Errorf("titles (-want +got):\n%s", diff)
	}
}

func TestClear(t *testing.T) {
	b := inbox.New()
	b.Offer(made("a", 1))
	b.Offer(made("b", 1))
	if n := b.Clear(); n != 2 || b.Len() != 0 {
		t.Errorf("Clear = %d with %d left, want 2 and 0", n, b.Len())
	}
	if n := b.Clear(); n != 0 {
		t.Errorf("Clear of an empty inbox = %d, want 0", n)
	}
}

// TestProperties offers and takes at random and compares with a plain model.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type kept struct {
			key   string
			count int
		}
		var model []kept
		var evicted uint64
		b := inbox.New()
		keys := rapid.IntRange(1, 80).Draw(t, "keys")
		for i := range rapid.IntRange(0, 300).Draw(t, "alerts") {
			if rapid.IntRange(0, 60).Draw(t, "take") == 0 {
				sum, want := 0, 0
				for _, a := range b.Take(all) {
					sum += a.Occurrences()
				}
				for _, k := range model {
					want += k.count
				}
				if sum != want {
					t.Fatalf("took %d occurrences, want %d", sum, want)
				}
				model = nil
			}
			a := made(fmt.Sprint(rapid.IntRange(1, keys).Draw(t, "key")), i)
			a.Count = rapid.IntRange(0, 3).Draw(t, "count")
			b.Offer(a)
			at := slices.IndexFunc(model, func(k kept) bool { return k.key == a.DedupKey })
			if at < 0 {
				at, model = len(model), append(model, kept{key: a.DedupKey})
			}
			model[at].count += a.Occurrences()
			if len(model) > inbox.Capacity {
				model = model[1:]
				evicted++
			}
			got := b.Pending()
			if len(got) != len(model) || len(got) > inbox.Capacity || b.Evicted() != evicted {
				t.Fatalf("%d pending and %d evicted, want %d and %d", len(got), b.Evicted(), len(model), evicted)
			}
			for i, a := range got {
				if (kept{a.DedupKey, a.Occurrences()}) != model[i] {
					t.Fatalf("alert %d is %s of count %d, want %v", i, a.DedupKey, a.Occurrences(), model[i])
				}
			}
		}
	})
}

// TestDiscardDelivered: alerts that another reader delivered are removed, also parts of
// a merged one.
func TestDiscardDelivered(t *testing.T) {
	b := inbox.New()
	for i, key := range []string{"a", "b", "a", "c"} {
		a := made(key, i)
		a.Seq = uint64(i + 1)
		b.Offer(a)
	}
	b.DiscardDelivered(2)
	var left []string
	for _, a := range b.Pending() {
		left = append(left, fmt.Sprint(a.DedupKey, a.Occurrences()))
	}
	if diff := cmp.Diff([]string{"a1", "c1"}, left); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	if got := b.Stats().DeliveredElsewhere; got != 1 {
		t.Errorf("DeliveredElsewhere = %d, want 1", got)
	}
}

// TestCauses: symptoms name their cause, also if that was taken a moment ago. A repeated
// cause counts from its first occurrence. Digest takes nothing.
func TestCauses(t *testing.T) {
	b := inbox.New()
	on := func(a alert.Alert, c alert.Category) alert.Alert {
		a.Category, a.Context = c, map[string]any{alert.PageKey: "/cart"}
		return a
	}
	check := func(name string, alerts []alert.Alert, want string) {
		t.Helper()
		got := ""
		for _, a := range alerts {
			got += fmt.Sprintf("%s under %q, over %d; ", a.ID, a.InhibitedBy, a.Symptoms)
		}
		if got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	b.Offer(on(made("n", 0), alert.NetworkErrors))
	b.Offer(on(made("e", 2), alert.Errors))
	b.Offer(on(made("n", 40), alert.NetworkErrors)) // the same again
	const want = `n40 under "", over 1; e2 under "n40", over 0; `
	check("Digest", b.Digest(), want)
	if b.Len() != 2 {
		t.Errorf("%d pending after Digest, want 2", b.Len())
	}
	check("Take", b.Take(all), want)
	b.Offer(on(made("r", 8), alert.Regression))
	b.Offer(on(made("q", 50), alert.Regression))
	check("Take after the cause", b.Take(all), `q50 under "", over 0; r8 under "n40", over 0; `)
	elsewhere := on(made("m", 100), alert.NetworkErrors) // delivered by another reader
	elsewhere.Seq = 5
	b.Offer(elsewhere)
	b.DiscardDelivered(5)
	b.Offer(on(made("f", 101), alert.Errors))
	check("Take after a cause delivered elsewhere", b.Take(all), `f101 under "m100", over 0; `)
}

// BenchmarkOffer measures the most expensive offer: a new alert to a full inbox.
func BenchmarkOffer(b *testing.B) {
	alerts := make([]alert.Alert, 2*inbox.Capacity)
	for i := range alerts {
		alerts[i] = made(fmt.Sprintf("POST:/api/users/%02d:500", i), i)
	}
	box := inbox.New()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		box.Offer(alerts[i%len(alerts)])
	}
}

// BenchmarkTake50 takes from a full inbox in which every alert is one of a pair.
func BenchmarkTake50(b *testing.B) {
	alerts := make([]alert.Alert, inbox.Capacity)
	for i := range alerts {
		alerts[i] = made(fmt.Sprintf("key %02d", i), i/4)
		alerts[i].Category = []alert.Category{alert.Regression, alert.Anomaly}[i%2]
	}
	box := inbox.New()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for _, a := range alerts {
			box.Offer(a)
		}
		b.StartTimer()
		if got := box.Take(all); len(got) != inbox.Capacity/2 {
			b.Fatalf("took %d alerts, want %d", len(got), inbox.Capacity/2)
		}
	}
}

// TestTakeUpTo: alerts after the sequence stay, also parts of a merged one. A revision
// has the sequence of the alert that it revises. In a recreated stream, all pending
// alerts come before the new ones.
func TestTakeUpTo(t *testing.T) {
	at := func(a alert.Alert, seq uint64) alert.Alert { a.Seq = seq; return a }
	b := inbox.New()
	b.Offer(at(made("a", 1), 1))
	b.Offer(at(made("b", 2), 2))
	b.Offer(at(made("a", 3), 3))
	b.Offer(at(revising(made("b", 4), "b2"), 4))
	b.Offer(at(made("c", 5), 5))
	take := func(seq uint64, want string) {
		t.Helper()
		got := ""
		for _, a := range b.Take(seq) {
			got += fmt.Sprintf("%s(%d) ", a.ID, a.Occurrences())
		}
		if got != want {
			t.Errorf("Take(%d) = %q, want %q", seq, got, want)
		}
	}
	take(1, "a1(1) ")
	take(2, "b2(1) ")
	take(2, "")
	take(4, "a3(1) ")
	b.ForgetPositions()
	b.Offer(at(made("d", 6), 1))
	take(0, "c5(1) ")
	if b.Len() != 1 {
		t.Errorf("%d pending, want 1", b.Len())
	}
}
