package history

import (
	"context"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// ingestTimeout bounds the wait for the health of an ingest. It takes longer if the
	// ingest itself waits for the bus; its health is unknown then.
	ingestTimeout = 300 * time.Millisecond
	// nextIngestTimeout bounds the wait for the reply of another ingest, on an external
	// bus: the number of ingests there is unknown.
	nextIngestTimeout = 25 * time.Millisecond
	// maxOrigins is how many refused origins a status names.
	maxOrigins = 10
)

// IngestHealth reports whether ingest accepts events now.
type IngestHealth struct {
	OK bool `json:"ok"`
	// Reason is why it does not.
	Reason string `json:"reason,omitempty"`
}

// RefusedOrigins are the pages of other sites that ingest refused, and the setting that
// admits them.
type RefusedOrigins struct {
	Setting string                `json:"setting"`
	Origins []query.RefusedOrigin `json:"origins"`
	// More is how many origins are left out.
	More int `json:"more,omitempty"`
}

// Ingest is what the ingests of the bus report together.
type Ingest struct {
	// Health is nil if it is unknown: the bus is unreachable, or the ingest is too slow or
	// of an older version.
	Health *IngestHealth
	// Refused is nil if no page of another site was refused.
	Refused *RefusedOrigins
}

// Ingest asks the ingests for their health in the background, and sends their answer.
func (r *Reader) Ingest(ctx context.Context) <-chan Ingest {
	answer := make(chan Ingest, 1)
	go func() { answer <- r.ingest(ctx) }()
	return answer
}

func (r *Reader) ingest(ctx context.Context) Ingest {
	session, err := r.bus.Session()
	if err != nil {
		return Ingest{}
	}
	q := presence.Request{Service: "ingest", First: ingestTimeout, Next: nextIngestTimeout}
	if !r.bus.External() { // tocsin up has one
		q.Expected = 1
	}
	all, answered, err := presence.CollectService(ctx, session, q)
	switch {
	case err != nil:
		r.log.Debug("cannot ask ingest for its health", "error", err)
		return Ingest{}
	case !answered:
		return Ingest{Health: &IngestHealth{Reason: "no ingest service answers: events are not accepted"}}
	case len(all) == 0:
		return Ingest{}
	}
	refusing, reason := 0, ""
	for _, h := range all {
		if h.OK {
			continue
		}
		if refusing++; refusing == 1 {
			reason = sanitize.Visible(r.mask.String(h.Reason))
		}
	}
	if len(all) > 1 && refusing > 0 {
		reason = fmt.Sprintf("%d of %d ingest services refuse events: %s", refusing, len(all), reason)
	}
	return Ingest{Health: &IngestHealth{OK: refusing == 0, Reason: reason}, Refused: r.refusedOrigins(all)}
}

// refusedOrigins lists the origins that ingests refused, or is nil.
func (r *Reader) refusedOrigins(ingests []query.Health) *RefusedOrigins {
	all := RefusedOrigins{Setting: "TOCSIN_ALLOWED_ORIGINS"}
	for _, h := range ingests {
		if h.Ingest == nil {
			continue
		}
		for _, refused := range h.Ingest.RefusedOrigins {
			if len(all.Origins) == maxOrigins {
				all.More++
				continue
			}
			refused.Origin = r.name(refused.Origin)
			all.Origins = append(all.Origins, refused)
		}
	}
	if len(all.Origins) == 0 {
		return nil
	}
	return &all
}
