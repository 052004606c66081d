package notifier_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// full returns a notifier that remembers 500 keys and has 100 pending alerts of the
// longest kind in ASCII.
func full() *notifier.Notifier {
	s := enabled(1)
	for i := range 600 {
		a := made(fmt.Sprintf("POST:/api/users/%s/%03d:500", strings.Repeat("x", 100), i))
		a.ID = fmt.Sprintf("%026d", i)
		a.Title, a.Detail = strings.Repeat("t", alert.MaxTitle), strings.Repeat("d", alert.MaxDetail)
		a.Context = map[string]any{"method": "POST", "url": strings.Repeat("u", 200), "status": 500.0, "duration_ms": 12.0}
		now := at(float64(i / 100))
		s.Due(now)
		s.Offer(a, now)
	}
	return s
}

// stateBytes returns the heap size of one full notifier.
func stateBytes() uint64 {
	const notifiers = 20
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	kept := make([]*notifier.Notifier, notifiers)
	for i := range kept {
		kept[i] = full()
	}
	after := heap()
	runtime.KeepAlive(kept)
	if after < before {
		return 0
	}
	return (after - before) / notifiers
}

// TestStateIsSmall checks the bound on memory: 500 KB.
func TestStateIsSmall(t *testing.T) {
	s := full().Stats()
	if s.Pending < 99 || s.Emitted < 500 {
		t.Fatalf("Stats = %+v, want at least 99 pending and 500 emitted", s)
	}
	if n := stateBytes(); n > 500_000 {
		t.Errorf("a full notifier takes %d bytes, want at most 500000", n)
	}
}

// BenchmarkState reports the size of a full notifier.
func BenchmarkState(b *testing.B) {
	var n uint64
	for b.Loop() {
		n = stateBytes()
	}
	b.ReportMetric(float64(n), "state-bytes")
}

// BenchmarkOffer offers to a full notifier, in turn: duplicates, repetitions of pending
// alerts, and alerts that are dropped.
func BenchmarkOffer(b *testing.B) {
	s := full()
	alerts := make([]alert.Alert, 300)
	for i := range alerts {
		alerts[i] = made(fmt.Sprintf("POST:/api/users/%s/%03d:500", strings.Repeat("x", 100), i+400))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Offer(alerts[i%len(alerts)], at(5.5))
	}
}

// BenchmarkEmit emits a full batch and writes its line.
func BenchmarkEmit(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		s := full()
		b.StartTimer()
		out := s.Due(at(30))
		if len(out) != 1 {
			b.Fatal("nothing was due")
		}
		if _, err := out[0].Line(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOfferAlone emits single alerts with a page and a text that names paths, from a
// notifier that remembers many.
func BenchmarkOfferAlone(b *testing.B) {
	s := enabled(1)
	alerts := make([]alert.Alert, 100)
	for i := range alerts {
		alerts[i] = made(fmt.Sprintf("errors:web:%03d", i))
		alerts[i].ID = fmt.Sprintf("%026d", i)
		alerts[i].Category = []alert.Category{alert.Errors, alert.NetworkErrors, alert.Regression}[i%3]
		alerts[i].Detail = strings.Repeat("GET http://localhost:3000/api/users/42 failed, ", 40)
		alerts[i].Context = map[string]any{alert.PageKey: "/users/:id", alert.EndpointKey: fmt.Sprintf("GET /api/%d/:id", i), alert.ReleaseKey: "web@1.2.3"}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		a := alerts[i%len(alerts)]
		a.Timestamp = at(float64(i))
		if len(s.Offer(a, at(float64(60*i)))) != 1 {
			b.Fatal("not sent")
		}
	}
}
