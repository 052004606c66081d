package gateway

import (
	"cmp"
	"context"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// healthWithin bounds how long it is looked for what other readers of the client
// were told, while somebody waits to hear how this gateway is.
const healthWithin = 300 * time.Millisecond

// present has the gateway answer query.health wherever it finds the bus. It is
// called before the parts begin.
func (g *gateway) present() {
	who := presence.Identify("gateway", g.cfg.Version, g.log)
	g.link.attend = func(ctx context.Context, c *bus.Conn) {
		if err := presence.Serve(ctx, c, who, g.presence); err != nil {
			g.log.Debug("query.health is not answered", "because", err) // the link finds the bus again
		}
	}
}

// presence is how this gateway and its client are.
func (g *gateway) presence() query.Health {
	call, cancel := context.WithTimeout(g.life, healthWithin)
	defer cancel()
	g.forgetTold(call)
	said := query.GatewayHealth{Client: sanitize.Visible(cmp.Or(g.cfg.Client, g.peer().name))}
	if version := g.protocol.Load(); version != nil {
		said.Protocol = *version
	}
	h := query.Health{OK: true, Gateway: &said}
	select {
	case <-g.link.caughtUp:
	default:
		h.OK, h.Reason = false, "the alerts that came before are not all read yet"
	}
	err := g.session.do(g.life, func(s *session, _ time.Time) {
		cfg, stats := s.stream.Config(), s.stream.Stats()
		said.Inbox, said.Subscriptions = s.inbox.Len(), len(s.subscriptions)
		said.Notified, said.Pending, said.Suppressed, said.Dropped = stats.NotifyCount, stats.Pending, stats.Suppressed, stats.Dropped
		if said.Streaming = cfg.Enabled; cfg.Enabled {
			said.Events, said.ThrottleSeconds, said.SeverityMin, said.URL = cfg.Events, cfg.ThrottleSeconds, string(cfg.SeverityMin), cfg.URL
		}
	})
	if err != nil {
		h.OK, h.Reason = false, err.Error()
	}
	return h
}
