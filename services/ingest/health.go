package ingest

import (
	"context"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// healthPause is the pause after query.health could not be answered.
const healthPause = 500 * time.Millisecond

// answerHealth returns a function that answers query.health on a session until ctx ends.
func (h *handler) answerHealth(s *busSink, version string) func(context.Context, *bus.Session) {
	who := presence.Identify("ingest", version, h.log)
	return func(ctx context.Context, session *bus.Session) {
		for ctx.Err() == nil {
			if err := presence.Serve(ctx, session, who, func() query.Health { return h.health(ctx, s) }); err != nil {
				h.log.Debug("cannot answer query.health", "error", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(healthPause):
			}
		}
	}
}

// health returns the state of ingest.
func (h *handler) health(ctx context.Context, s *busSink) query.Health {
	state := query.Health{OK: true, Ingest: &query.IngestHealth{
		Pressure: h.inFlight.reading().pressure.String(), Circuit: circuitState(s.breaker.State()), Accepted: h.metrics.acceptedEvents.Load(),
		RefusedOrigins: h.refused.list(h.now()),
	}}
	if err := s.Ready(ctx); err != nil {
		state.OK, state.Reason = false, err.Error()
	}
	return state
}
