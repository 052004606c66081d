package ingest

import (
	"context"
	"time"

	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// attend answers query.health until ctx ends, on whatever connection there is.
func (h *handler) attend(ctx context.Context, s *busSink, version string) {
	who := presence.Identify("ingest", version, h.log)
	for {
		if err := presence.Serve(ctx, s.link.Load().conn, who, func() query.Health { return h.health(ctx, s) }); err != nil {
			h.log.Debug("query.health is not answered", "because", err) // the sink says what is wrong, and mends it
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reopenRetry):
		}
	}
}

// health is how the intake is.
func (h *handler) health(ctx context.Context, s *busSink) query.Health {
	said := query.Health{OK: true, Ingest: &query.IngestHealth{
		Pressure: h.load.now().pressure.String(), Circuit: circuitState(s.breaker.State()), Accepted: h.metrics.accepted.Load(),
		RefusedOrigins: h.origins.list(h.now()),
	}}
	if err := s.Ready(ctx); err != nil {
		said.OK, said.Reason = false, err.Error()
	}
	return said
}
