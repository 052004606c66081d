package ingest

import (
	"context"
	"time"

	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// answerHealth answers query.health until ctx ends, on the current connection.
func (h *handler) answerHealth(ctx context.Context, s *busSink, version string) {
	who := presence.Identify("ingest", version, h.log)
	for {
		if err := presence.Serve(ctx, s.link.Load().conn, who, func() query.Health { return h.health(ctx, s) }); err != nil {
			h.log.Debug("query.health is not answered", "error", err) // the sink logs what is wrong, and reconnects
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reconnectPause):
		}
	}
}

// health returns the state of the intake.
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
