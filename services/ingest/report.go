package ingest

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// ownApp is the app under which Tocsin tells of itself, where there is one intake.
	ownApp = telemetry.ReservedApp
	// circuitName is the name of the breaker to the bus.
	circuitName = "ingest bus"
	// maxPending is how many reports wait for the bus. Past it the oldest go:
	// what counts is where things stand now.
	maxPending = 16
	// reportRetry is the pause after a report that the bus did not take.
	reportRetry = 500 * time.Millisecond
	// reportPause is the shortest time between two reports that were taken: a
	// state that flaps is told in bundles.
	reportPause = time.Second
)

// appOf is the app under which an intake of that name tells of itself. States are
// kept by app: of two intakes under one, each that is well would end what the other
// told.
func appOf(instance string) string {
	if instance == "" {
		return ownApp
	}
	return ownApp + "-" + bus.Token(instance)
}

// turn is a change of the circuit breaker.
type turn struct {
	state  gobreaker.State
	reason string
}

// reporter tells the bus, as telemetry of the app tocsin, when the pressure or
// the circuit breaker changes its state; the detector's threshold rule makes
// alerts of it. What the bus doesn't take is tried again until it does, which
// is also what finds out that a bus has come back while nobody writes.
type reporter struct {
	sink *busSink
	load *load
	// app is that under which it tells.
	app string
	log *slog.Logger
	// dropped counts reports that went because too many were waiting.
	dropped prometheus.Counter

	pending []telemetry.Event
	// pressure and circuit are the states told last or waiting to be.
	pressure pressure
	circuit  gobreaker.State
}

func (r *reporter) run(ctx context.Context) {
	var due <-chan time.Time // nil while there is nothing to tell
	for {
		select {
		case <-ctx.Done():
			return
		case got := <-r.load.changes:
			r.addPressure(got)
			r.addPressure(r.load.now()) // in case changes came out of order, or got lost
		case got := <-r.sink.turns:
			r.addCircuit(got)
			r.addCircuit(turn{state: r.sink.breaker.State()})
		case <-due:
			due = nil
		}
		if due == nil && len(r.pending) > 0 {
			due = time.After(r.publish(ctx))
		}
	}
}

// publish tells what is pending, and says how long to wait with the next.
func (r *reporter) publish(ctx context.Context) time.Duration {
	msgs, err := messages(r.pending, r.app)
	if err != nil {
		r.dropped.Add(float64(len(r.pending)))
		r.log.Error("a report about the intake itself is lost", "error", err)
	} else if err := r.sink.Publish(ctx, msgs...); err != nil {
		return reportRetry
	}
	r.pending = nil
	return reportPause
}

func (r *reporter) addPressure(got reading) {
	if got.pressure == r.pressure {
		return
	}
	r.pressure = got.pressure
	r.add(telemetry.Event{
		Kind: telemetry.KindMemory, App: r.app, Time: stamp(time.Now()),
		// Validation wants a positive number, and nothing is under way is not one.
		Memory: &telemetry.Memory{UsedBytes: float64(max(got.used, 1)), LimitBytes: float64(r.load.limit)},
	})
}

func (r *reporter) addCircuit(got turn) {
	if got.state == r.circuit {
		return
	}
	r.circuit = got.state
	r.add(telemetry.Event{
		Kind: telemetry.KindCircuit, App: r.app, Time: stamp(time.Now()),
		Circuit: &telemetry.Circuit{Name: circuitName, State: circuitState(got.state), Reason: got.reason},
	})
}

// circuitState is the state of a breaker in the words of telemetry.
func circuitState(state gobreaker.State) string {
	switch state {
	case gobreaker.StateOpen:
		return telemetry.CircuitOpen
	case gobreaker.StateHalfOpen:
		return telemetry.CircuitHalfOpen
	default:
		return telemetry.CircuitClosed
	}
}

// add queues a report. A breaker that goes from open to half open and back for
// as long as the bus is away is one episode: it is told once.
func (r *reporter) add(e telemetry.Event) {
	if n := len(r.pending); n >= 2 && e.Circuit != nil {
		before, last := r.pending[n-2], r.pending[n-1]
		if before.Circuit != nil && last.Circuit != nil && before.Circuit.State == e.Circuit.State {
			r.pending = r.pending[:n-1]
			return
		}
	}
	if len(r.pending) == maxPending {
		r.pending = r.pending[1:]
		r.dropped.Inc()
	}
	r.pending = append(r.pending, e)
}
