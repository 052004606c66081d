package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

const (
	// intakeWait bounds how long an intake may take to say how it is. One that looks at
	// a bus that does not answer takes longer, and says nothing then.
	intakeWait = 300 * time.Millisecond
	// nextIntakeWait is how long another intake of an external bus is waited for. How
	// many there are is not known.
	nextIntakeWait = 25 * time.Millisecond
)

// intakeHealth says whether what is sent now is taken in.
type intakeHealth struct {
	OK bool `json:"ok"`
	// Reason says why not.
	Reason string `json:"reason,omitempty"`
}

// intake asks the intakes how they are. It is nil where that is not known: without the
// bus, and of an intake of an older version.
func (g *gateway) intake(ctx context.Context) *intakeHealth {
	c := g.link.conn.Load()
	if c == nil || g.connected() != nil {
		return nil
	}
	q := presence.Question{Service: "ingest", First: intakeWait, Next: nextIntakeWait}
	if g.link.cfg.URL == "" { // tocsin up has one
		q.Expected = 1
	}
	all, answered, err := presence.Of(ctx, c, q)
	switch {
	case err != nil:
		g.log.Debug("how the intake is can't be said", "error", err)
		return nil
	case !answered:
		return &intakeHealth{Reason: "no intake answers: nothing is taken in"}
	case len(all) == 0:
		return nil
	}
	refusing, reason := 0, ""
	for _, h := range all {
		if h.OK {
			continue
		}
		if refusing++; refusing == 1 {
			reason = untrusted.Visible(g.mask.String(h.Reason))
		}
	}
	if len(all) > 1 && refusing > 0 {
		reason = fmt.Sprintf("%d of %d intakes refuse: %s", refusing, len(all), reason)
	}
	return &intakeHealth{OK: refusing == 0, Reason: reason}
}

// askIntake is intake, beside what else is asked: the result is in the channel.
func (g *gateway) askIntake(ctx context.Context) <-chan *intakeHealth {
	said := make(chan *intakeHealth, 1)
	go func() { said <- g.intake(ctx) }()
	return said
}
