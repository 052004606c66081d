package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// intakeWait bounds how long an intake may take to say how it is. One that looks at
	// a bus that does not answer takes longer: its health is not known then.
	intakeWait = 300 * time.Millisecond
	// nextIntakeWait is how long another intake of an external bus is waited for. How
	// many there are is not known.
	nextIntakeWait = 25 * time.Millisecond
)

// intakeHealth reports whether the intake accepts events now.
type intakeHealth struct {
	OK bool `json:"ok"`
	// Reason is why not.
	Reason string `json:"reason,omitempty"`
}

// intakes is what the intakes answered. Health is nil where that is not known: without
// the bus, of an intake of an older version, and of one that is too slow. Refused is nil where there are no pages
// of other sites that an intake refused.
type intakes struct {
	health  *intakeHealth
	refused *refusedOrigins
}

// intakes asks the intakes how they are.
func (g *gateway) intakes(ctx context.Context) intakes {
	c := g.link.conn.Load()
	if c == nil || g.connected() != nil {
		return intakes{}
	}
	q := presence.Question{Service: "ingest", First: intakeWait, Next: nextIntakeWait}
	if g.link.cfg.URL == "" { // tocsin up has one
		q.Expected = 1
	}
	all, answered, err := presence.Of(ctx, c, q)
	switch {
	case err != nil:
		g.log.Debug("the health of the intake is not known", "error", err)
		return intakes{}
	case !answered:
		return intakes{health: &intakeHealth{Reason: "no intake answers: nothing is taken in"}}
	case len(all) == 0:
		return intakes{}
	}
	refusing, reason := 0, ""
	for _, h := range all {
		if h.OK {
			continue
		}
		if refusing++; refusing == 1 {
			reason = sanitize.Visible(g.mask.String(h.Reason))
		}
	}
	if len(all) > 1 && refusing > 0 {
		reason = fmt.Sprintf("%d of %d intakes refuse: %s", refusing, len(all), reason)
	}
	return intakes{health: &intakeHealth{OK: refusing == 0, Reason: reason}, refused: g.refusedBy(all)}
}

// askIntakes asks the intakes in the background. The channel receives their answer.
func (g *gateway) askIntakes(ctx context.Context) <-chan intakes {
	answer := make(chan intakes, 1)
	go func() { answer <- g.intakes(ctx) }()
	return answer
}
