package ingest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

func TestPressure(t *testing.T) {
	l := newInFlight(1000)
	for _, step := range []struct {
		change int64
		want   pressure
	}{
		{749, pressureNormal}, {1, pressureSoft}, {-140, pressureSoft}, {100, pressureSoft}, {190, pressureHard},
		{-200, pressureHard}, {-100, pressureHard}, {-1, pressureNormal}, {301, pressureHard}, {-900, pressureNormal},
	} {
		if step.change > 0 && !l.reserve(step.change) {
			t.Fatalf("%d of %d, and %d don't fit", l.used.Load(), l.limit, step.change)
		}
		if step.change < 0 {
			l.free(-step.change)
		}
		if got := pressure(l.pressure.Load()); got != step.want {
			t.Errorf("at %d: pressure %d, want %d", l.used.Load(), got, step.want)
		}
	}
	if l.reserve(1001) || l.used.Load() != 0 {
		t.Error("more than the bound was taken")
	}
}

func TestPendingReportsAreBounded(t *testing.T) {
	story := func(r *reporter) string {
		var parts []string
		for _, e := range r.pending {
			switch {
			case e.Circuit != nil:
				parts = append(parts, e.Circuit.State)
			case e.Memory != nil:
				parts = append(parts, fmt.Sprintf("%.0f%%", 100*e.Memory.UsedBytes/e.Memory.LimitBytes))
			}
		}
		return strings.Join(parts, " ")
	}
	r := &reporter{inFlight: newInFlight(1000), app: ownApp, dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "dropped"})}
	turns := []gobreaker.State{gobreaker.StateOpen, gobreaker.StateHalfOpen}
	for i := range 101 {
		r.addCircuit(circuitChange{state: turns[i%2], reason: "the bus is unreachable"})
	}
	if got := story(r); got != "open" {
		t.Errorf("while the bus is unreachable: %s", got)
	}
	r.addCircuit(circuitChange{state: gobreaker.StateHalfOpen})
	r.addCircuit(circuitChange{state: gobreaker.StateClosed})
	r.addCircuit(circuitChange{state: gobreaker.StateClosed})
	if got := story(r); got != "open half_open closed" {
		t.Errorf("after it came back: %s", got)
	}
	for range 20 {
		r.addPressure(pressureReading{pressureHard, 950})
		r.addPressure(pressureReading{pressureNormal, 0})
	}
	if n := len(r.pending); n != maxPending || !strings.HasSuffix(story(r), "95% 0%") {
		t.Errorf("%d reports: %s", n, story(r))
	}
	msgs, err := eventMessages(r.pending, ownApp)
	if err != nil || len(msgs) != 1 || msgs[0].Subject != "telemetry.tocsin.memory" {
		t.Errorf("messages = %v, %v, want one of memory", msgs, err)
	}
}

func TestReadingAgreesWithPressure(t *testing.T) {
	l := newInFlight(1000)
	for _, used := range []int64{900, 650, 100} {
		l.reserve(used - l.used.Load())
		l.updatePressure(used)
		l.used.Store(used)
		now := l.reading()
		if got := pressureNormal.next(now.used, l.limit); got != now.pressure {
			t.Errorf("at %d: %d bytes have pressure %d, want %d", used, now.used, got, now.pressure)
		}
	}
}
