package inbox_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// all is a place that every alert is before.
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
		t.Fatalf("%d drained and %d left, want 3 and 0: %v", len(got), b.Len(), got)
	}
	if a := got[0]; a.DedupKey != "a" || a.Count != 4 || a.Detail != "detail 9" || !a.Timestamp.Equal(start.Add(9*time.Second)) {
		t.Errorf("merged into %+v", a)
	}
	if got[1].App != "checkout" || got[1].Count != 0 {
		t.Errorf("the other app's: %+v", got[1])
	}
	if again := b.Take(all); len(again) != 0 {
		t.Errorf("drained twice: %v", again)
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
		t.Fatalf("a repetition pushed others out: %d left, %d evicted", b.Len(), b.Evicted())
	}
	b.Offer(made("new", 100))
	pending := b.Pending()
	if b.Evicted() != 1 || len(pending) != inbox.Capacity || pending[0].DedupKey != "key1" || pending[49].DedupKey != "new" {
		t.Errorf("%d evicted, %d left from %s to %s", b.Evicted(), len(pending), pending[0].DedupKey, pending[len(pending)-1].DedupKey)
	}
}

func TestRevisions(t *testing.T) {
	b := inbox.New()
	b.Offer(made("a", 1))
	b.Offer(made("b", 2))
	b.Offer(revising(made("a", 3), "a1"))
	b.Offer(revising(made("a", 4), "a1")) // a revision names the first alert
	got := b.Pending()
	if len(got) != 2 || got[0].ID != "a1" || got[0].Detail != "detail 4" || got[0].Count != 0 || got[0].Revises != "" {
		t.Errorf("place and count are kept: %+v", got)
	}
	b.Offer(made("a", 5))
	b.Offer(revising(made("a", 6), "a1"))
	if got := b.Pending()[0]; got.ID != "a1" || got.Detail != "detail 6" || got.Count != 2 {
		t.Errorf("after a repetition: %+v", got)
	}
	b.Take(all)
	b.Offer(revising(made("a", 7), "a1"))
	if b.Len() != 0 {
		t.Error("a revision of a drained alert came in")
	}
	b.Offer(made("old", 1))
	for i := range inbox.Capacity {
		b.Offer(made(fmt.Sprint("key", i), i))
	}
	b.Offer(revising(made("old", 2), "old1"))
	if slices.ContainsFunc(b.Pending(), func(a alert.Alert) bool { return a.DedupKey == "old" }) {
		t.Error("a revision of an evicted alert came in")
	}
	want := inbox.Stats{Offered: 59, Revised: 3, Ignored: 2, Evicted: 1}
	if b.Stats() != want {
		t.Errorf("%+v, want %+v", b.Stats(), want)
	}
}

func TestDrainIsADigest(t *testing.T) {
	b := inbox.New()
	regression, anomaly, info := made("r", 1), made("a", 6), made("i", 9)
	regression.Category, anomaly.Category, info.Severity = alert.Regression, alert.Anomaly, alert.Info
	for _, a := range []alert.Alert{info, regression, anomaly} {
		b.Offer(a)
	}
	got := b.Take(all)
	if len(got) != 2 || got[0].Title != "Correlated: title of r + title of a" || got[1].ID != "i9" {
		t.Errorf("%+v", got)
	}
}

func TestClear(t *testing.T) {
	b := inbox.New()
	b.Offer(made("a", 1))
	b.Offer(made("b", 1))
	if n := b.Clear(); n != 2 || b.Len() != 0 || b.Clear() != 0 {
		t.Errorf("cleared %d, left %d", n, b.Len())
	}
}

// TestProperties offers and drains at random and compares with a plain model.
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
			if rapid.IntRange(0, 60).Draw(t, "drain") == 0 {
				sum, want := 0, 0
				for _, a := range b.Take(all) {
					sum += a.Occurrences()
				}
				for _, k := range model {
					want += k.count
				}
				if sum != want {
					t.Fatalf("drained %d occurrences, want %d", sum, want)
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
					t.Fatalf("place %d has %s of count %d, want %v", i, a.DedupKey, a.Occurrences(), model[i])
				}
			}
		}
	})
}

// TestDropTold: what another reader was shown goes, also of what was merged.
func TestDropTold(t *testing.T) {
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
	if got := fmt.Sprint(left); got != "[a1 c1]" || b.Stats().DeliveredElsewhere != 1 {
		t.Errorf("%s, %+v", got, b.Stats())
	}
}

// TestCauses: what has one cause is told under it, also where that was drained a
// moment ago, and to look at the digest drains nothing. A repeated cause is where
// it began.
func TestCauses(t *testing.T) {
	b := inbox.New()
	on := func(a alert.Alert, c alert.Category) alert.Alert {
		a.Category, a.Context = c, map[string]any{alert.PageKey: "/cart"}
		return a
	}
	told := func(alerts []alert.Alert) (got string) {
		for _, a := range alerts {
			got += fmt.Sprintf("%s under %q, over %d; ", a.ID, a.InhibitedBy, a.Symptoms)
		}
		return got
	}
	b.Offer(on(made("n", 0), alert.NetworkErrors))
	b.Offer(on(made("e", 2), alert.Errors))
	b.Offer(on(made("n", 40), alert.NetworkErrors)) // the same again
	const want = `n40 under "", over 1; e2 under "n40", over 0; `
	if got := told(b.Digest()); got != want || b.Len() != 2 {
		t.Errorf("%s, %d are left", got, b.Len())
	}
	if got := told(b.Take(all)); got != want {
		t.Error(got)
	}
	b.Offer(on(made("r", 8), alert.Regression))
	b.Offer(on(made("q", 50), alert.Regression))
	if got := told(b.Take(all)); got != `q50 under "", over 0; r8 under "n40", over 0; ` {
		t.Error(got)
	}
	elsewhere := on(made("m", 100), alert.NetworkErrors) // another reader was told this one
	elsewhere.Seq = 5
	b.Offer(elsewhere)
	b.DiscardDelivered(5)
	b.Offer(on(made("f", 101), alert.Errors))
	if got := told(b.Take(all)); got != `f101 under "m100", over 0; ` {
		t.Error(got)
	}
}

// BenchmarkOffer measures the dearest offer: a new alert to a full inbox.
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

// BenchmarkDrain50 measures a drain of a full inbox in which every alert is one
// of a pair.
func BenchmarkDrain50(b *testing.B) {
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
			b.Fatalf("drained %d", len(got))
		}
	}
}

// TestDrainUpToAPlace: what came after it stays, also of what was merged. A revision has the place of what it revises, and after a new stream all
// that pends is before it.
func TestDrainUpToAPlace(t *testing.T) {
	at := func(a alert.Alert, seq uint64) alert.Alert { a.Seq = seq; return a }
	b := inbox.New()
	b.Offer(at(made("a", 1), 1))
	b.Offer(at(made("b", 2), 2))
	b.Offer(at(made("a", 3), 3))
	b.Offer(at(revising(made("b", 4), "b2"), 4))
	b.Offer(at(made("c", 5), 5))
	ids := func(alerts []alert.Alert) (got string) {
		for _, a := range alerts {
			got += fmt.Sprintf("%s(%d) ", a.ID, a.Occurrences())
		}
		return got
	}
	for _, c := range []struct {
		seq  uint64
		want string
	}{{1, "a1(1) "}, {2, "b2(1) "}, {2, ""}, {4, "a3(1) "}} {
		if got := ids(b.Take(c.seq)); got != c.want {
			t.Errorf("up to %d: %s, want %s", c.seq, got, c.want)
		}
	}
	b.ForgetPositions()
	b.Offer(at(made("d", 6), 1))
	if got := ids(b.Take(0)); got != "c5(1) " {
		t.Errorf("of the stream that is gone: %s", got)
	}
	if b.Len() != 1 {
		t.Errorf("%d are left", b.Len())
	}
}
