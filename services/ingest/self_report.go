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
	// ownApp is the app of events about Tocsin itself if there is one ingest service.
	ownApp = telemetry.ReservedApp
	// circuitName is the name of the circuit breaker to the bus.
	circuitName = "ingest bus"
	// maxPending is how many reports wait for the bus. Past it the oldest are dropped: the
	// current state is what matters.
	maxPending = 16
	// reportRetry is the pause after a report that the bus did not accept.
	reportRetry = 500 * time.Millisecond
	// reportPause is the shortest time between two reports: the reports of a flapping state are
	// published together.
	reportPause = time.Second
)

// ownAppOf returns the app of an ingest service's events about itself, from its Instance. The
// detector keeps states by app: of two ingest services that share one, a healthy one would resolve
// the alerts of the other.
func ownAppOf(instance string) string {
	if instance == "" {
		return ownApp
	}
	return ownApp + "-" + bus.Token(instance)
}

// circuitChange is a change of the circuit breaker.
type circuitChange struct {
	state  gobreaker.State
	reason string
}

// reporter publishes changes of the pressure and of the circuit breaker as telemetry of
// the app tocsin; the detector's threshold rule raises alerts from it. A report is retried
// until the bus accepts it, which also closes the breaker when nothing else is written.
type reporter struct {
	sink *busSink
	// inFlight has the pressure.
	inFlight *inFlight
	// app is the app of the events.
	app string
	log *slog.Logger
	// dropped counts reports that were dropped because too many waited.
	dropped prometheus.Counter

	pending []telemetry.Event
	// pressure and circuit are the states that were reported last, or wait to be.
	pressure pressure
	circuit  gobreaker.State
}

func (r *reporter) run(ctx context.Context) {
	var due <-chan time.Time // nil while there is nothing to report
	for {
		select {
		case <-ctx.Done():
			return
		case got := <-r.inFlight.changes:
			r.addPressure(got)
			r.addPressure(r.inFlight.reading()) // in case changes were reordered or lost
		case got := <-r.sink.changes:
			r.addCircuit(got)
			r.addCircuit(circuitChange{state: r.sink.breaker.State()})
		case <-due:
			due = nil
		}
		if due == nil && len(r.pending) > 0 {
			due = time.After(r.publish(ctx))
		}
	}
}

// publish publishes what is pending, and returns how long to wait before the next call.
func (r *reporter) publish(ctx context.Context) time.Duration {
	msgs, err := eventMessages(r.pending, r.app)
	if err != nil {
		r.dropped.Add(float64(len(r.pending)))
		r.log.Error("dropped reports of ingest about itself: they cannot be encoded", "error", err)
	} else if err := r.sink.Publish(ctx, msgs...); err != nil {
		return reportRetry
	}
	r.pending = nil
	return reportPause
}

func (r *reporter) addPressure(got pressureReading) {
	if got.pressure == r.pressure {
		return
	}
	r.pressure = got.pressure
	r.queue(telemetry.Event{
		Kind: telemetry.KindMemory, App: r.app, Time: eventTime(time.Now()),
		// Validation requires a positive number; in flight may be nothing.
		Memory: &telemetry.Memory{UsedBytes: float64(max(got.used, 1)), LimitBytes: float64(r.inFlight.limit)},
	})
}

func (r *reporter) addCircuit(got circuitChange) {
	if got.state == r.circuit {
		return
	}
	r.circuit = got.state
	r.queue(telemetry.Event{
		Kind: telemetry.KindCircuit, App: r.app, Time: eventTime(time.Now()),
		Circuit: &telemetry.Circuit{Name: circuitName, State: circuitState(got.state), Reason: got.reason},
	})
}

// circuitState returns the state of a breaker as telemetry names it.
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

// queue queues a report. A breaker that alternates between open and half open while the bus
// is unreachable is one episode: it is reported once.
func (r *reporter) queue(e telemetry.Event) {
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
