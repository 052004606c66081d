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
			t.Fatalf("reserve(%d) at %d of %d: got false, want true", step.change, l.used.Load(), l.limit)
		}
		if step.change < 0 {
			l.free(-step.change)
		}
		if got := pressure(l.pressure.Load()); got != step.want {
			t.Errorf("at %d: pressure %d, want %d", l.used.Load(), got, step.want)
		}
	}
	if l.reserve(1001) || l.used.Load() != 0 {
		t.Errorf("%d bytes are in flight after reserve(1001) of 1000, want a refusal and 0", l.used.Load())
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
		t.Errorf("while the bus is unreachable: reports %q, want open", got)
	}
	r.addCircuit(circuitChange{state: gobreaker.StateHalfOpen})
	r.addCircuit(circuitChange{state: gobreaker.StateClosed})
	r.addCircuit(circuitChange{state: gobreaker.StateClosed})
	if got := story(r); got != "open half_open closed" {
		t.Errorf("after the bus is restored: reports %q, want open half_open closed", got)
	}
	for range 20 {
		r.addPressure(pressureReading{pressureHard, 950})
		r.addPressure(pressureReading{pressureNormal, 0})
	}
	if n := len(r.pending); n != maxPending || !strings.HasSuffix(story(r), "95% 0%") {
		t.Errorf("%d reports: %s, want %d that end in 95%% 0%%", n, story(r), maxPending)
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
