package main

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness/figures"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// decisions measures the pure parts of the gateway. Each time is of one call, with the
// clock's own 50 ns or so.
func decisions() []figures.Figure {
	const n = 100_000
	alerts := make([]alert.Alert, 2*inbox.Capacity)
	for i := range alerts {
		alerts[i] = made(i)
	}
	box := inbox.New()
	offers := timed(n, func(i int) { box.Offer(alerts[i%len(alerts)]) })
	drains := make([]time.Duration, 0, n/100)
	for range cap(drains) {
		for _, a := range alerts[:inbox.Capacity] {
			box.Offer(a)
		}
		started := time.Now()
		box.Take(math.MaxUint64)
		drains = append(drains, time.Since(started))
	}
	s := full()
	now := epoch.Add(10 * time.Second)
	streamed := timed(n, func(i int) { s.Offer(alerts[i%len(alerts)], now) })
	return []figures.Figure{
		{What: "alert offered to a full inbox", Asked: "< 0.1 ms", Measured: figures.Quantiles(offers)},
		{What: fmt.Sprintf("drain of %d", inbox.Capacity), Asked: "< 1 ms", Measured: figures.Quantiles(drains)},
		{What: "stream decision, 500 keys and 100 pending", Asked: "< 0.1 ms", Measured: figures.Quantiles(streamed)},
		{What: "stream state with 500 keys and 100 pending", Asked: "< 500 KB", Measured: fmt.Sprintf("%.0f KB", float64(stateBytes())/1000)},
	}
}

func timed(n int, f func(int)) []time.Duration {
	times := make([]time.Duration, n)
	for i := range times {
		started := time.Now()
		f(i)
		times[i] = time.Since(started)
	}
	return times
}

var epoch = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

// made returns an alert of the usual size.
func made(i int) alert.Alert {
	key := fmt.Sprintf("POST:/api/users/%04d:500", i)
	return alert.Alert{
		ID: fmt.Sprintf("%026d", i), Severity: alert.Error, Category: alert.NetworkErrors, Title: "Server error: " + key,
		Detail: strings.Repeat("d", 200), Timestamp: epoch.Add(time.Duration(i) * time.Second), Source: alert.SourceNetwork,
		App: "web", URL: "http://localhost:3000/api/users", DedupKey: key, CorrelationID: fmt.Sprintf("%026d", i),
		Context: map[string]any{"method": "POST", "url": "/api/users", "status": 500.0, "duration_ms": 12.0},
	}
}

// full returns a notifier that remembers 500 keys and has 100 alerts pending.
func full() *notifier.Notifier {
	s := notifier.New()
	c := notifier.DefaultConfig()
	c.ThrottleSeconds = 1
	s.Enable(c)
	for i := range 600 {
		now := epoch.Add(time.Duration(i/100) * time.Second)
		s.Due(now)
		s.Offer(made(1000+i), now)
	}
	return s
}

func stateBytes() uint64 {
	const streams = 50
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	kept := make([]*notifier.Notifier, streams)
	for i := range kept {
		kept[i] = full()
	}
	after := heap()
	runtime.KeepAlive(kept)
	return (max(after, before) - before) / streams
}
