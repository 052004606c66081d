package fold_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// everything chooses the default rules for every app.
var everything = ruleset.Table{Default: ruleset.Default()}

// stack returns the stack of an error in a function, as V8 writes it.
func stack(function int) string {
	return fmt.Sprintf("TypeError: Cannot read properties of undefined (reading 'total')\n"+
		"    at price%[1]d (https://shop.example/assets/cart-8f3c2a1b.js:10:%[1]d)\n"+
		"    at renderCart (https://shop.example/assets/cart-8f3c2a1b.js:44:12)\n"+
		"    at dispatch (https://shop.example/node_modules/framework/index.js:1:3001)", function)
}

// traffic returns 100 events of one app: logs, errors with and without a stack, successful and
// failed requests, and page loads. n chooses the pages and errors.
func traffic(app string, n int) []telemetry.Event {
	all := make([]telemetry.Event, 0, 100)
	for i := range 100 {
		var e telemetry.Event
		switch {
		case i%10 < 4:
			e = logged(telemetry.LevelInfo, fmt.Sprintf("user %s%d took %d ms for /orders/%d", []string{"ada", "bob", "cy"}[i%3], i, i*7, i))
		case i%10 == 4:
			e = logged(telemetry.LevelError, fmt.Sprintf("order %d of customer %c%c%c failed", i, 'a'+n%26, 'a'+n/26%26, 'a'+n/676%26))
		case i%10 == 5:
			e = logged(telemetry.LevelError, "Cannot read properties of undefined (reading 'total')")
			e.Log.Stack = stack(n)
		case i%10 < 9:
			e = requested("GET", fmt.Sprintf("/api/%d/orders/%d", n, i), 200)
			if i%50 == 7 {
				e.Network.Status = 503
			}
		default:
			e = loaded(fmt.Sprintf("/page-%c%c%c", 'a'+n%26, 'a'+n/26%26, 'a'+n/676%26), 1000+float64(i*37%200))
		}
		e.App = app
		all = append(all, e)
	}
	return all
}

// BenchmarkApplyEverything measures 100 events with the default rules: of few apps, and of
// many apps, pages and errors, as an attacker could send them.
func BenchmarkApplyEverything(b *testing.B) {
	for _, tt := range []struct {
		name        string
		table       ruleset.Table
		apps, kinds int
	}{
		{"contract/10 apps", ruleset.Table{}, 10, 100},
		{"all/10 apps", everything, 10, 100},
		{"all/10000 apps", everything, 10_000, 1},
		{"all/10000 pages and errors", everything, 1, 10_000},
	} {
		b.Run(tt.name, func(b *testing.B) {
			f := fold.New(fold.Config{Rules: tt.table})
			messages := make([][]telemetry.Event, max(tt.apps, tt.kinds))
			for i := range messages {
				messages[i] = traffic(fmt.Sprint("app", i%tt.apps), i%tt.kinds)
			}
			seq, now := uint64(0), start
			b.ReportAllocs()
			for b.Loop() {
				m := messages[seq%uint64(len(messages))]
				seq++
				now = now.Add(10 * time.Millisecond)
				f.Apply(fold.Message{Seq: seq, Time: now, Events: m})
			}
			b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// TestMemoryIsBounded checks that a sender that chooses the names of apps, pages and errors
// can use at most MaxBytes, or the size of one largest app, and that the fold's count of
// bytes is near the memory that it takes.
func TestMemoryIsBounded(t *testing.T) {
	const many = 10_000
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // frees what the first one only marked
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for _, tt := range []struct {
		name   string
		app    func(i int) string
		n      func(i int) int
		atMost int
	}{
		{"apps", func(i int) string { return fmt.Sprint("app", i) }, func(int) int { return 0 }, fold.DefaultBytes},
		{"pages and errors of one app", func(int) string { return "web" }, func(i int) int { return i }, 24 << 20},
		{"apps, pages and errors", func(i int) string { return fmt.Sprint("app", i%100) }, func(i int) int { return i }, fold.DefaultBytes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := heap()
			f := fold.New(fold.Config{Rules: everything})
			for i := range many {
				f.Apply(fold.Message{Seq: uint64(i + 1), Time: start.Add(time.Duration(i) * 10 * time.Millisecond), Events: traffic(tt.app(i), tt.n(i))})
			}
			took, counted := heap()-before, f.Stats().Bytes
			t.Logf("%d MB on the heap, %d MB counted; %+v", took>>20, counted>>20, f.Stats())
			if counted > tt.atMost {
				t.Errorf("%d bytes counted, want at most %d", counted, tt.atMost)
			}
			// Keys of the storm limiter and the like are not counted.
			if slack := 16 << 20; took > counted+counted/2+slack {
				t.Errorf("%d bytes on the heap, want at most %d with %d counted", took, counted+counted/2+slack, counted)
			}
			runtime.KeepAlive(f)
		})
	}
}
