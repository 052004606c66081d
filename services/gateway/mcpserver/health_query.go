package mcpserver

import (
	"cmp"
	"context"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// healthTimeout bounds reading which alerts other readers of the client have delivered.
const healthTimeout = 300 * time.Millisecond

// health answers query.health: the state of this gateway and its client.
func (s *server) health() query.Health {
	call, cancel := context.WithTimeout(s.life.Context(), healthTimeout)
	defer cancel()
	s.alerts.DiscardDelivered(call)
	about := query.GatewayHealth{Client: sanitize.Visible(cmp.Or(s.cfg.Client, s.peer().name)), Subscriptions: s.kubernetes.Len()}
	if version := s.protocol.Load(); version != nil {
		about.Protocol = *version
	}
	h := query.Health{OK: true, Gateway: &about}
	select {
	case <-s.alerts.CaughtUp():
	default:
		h.OK, h.Reason = false, "not all alerts of the past are read yet"
	}
	err := s.alerts.Do(func(state *delivery.State, _ time.Time) {
		cfg, stats := state.Notifier.Config(), state.Notifier.Stats()
		about.Inbox = state.Inbox.Len()
		about.Notified, about.Pending, about.Suppressed, about.Dropped = stats.NotifyCount, stats.Pending, stats.Suppressed, stats.Dropped
		if about.Streaming = cfg.Enabled; cfg.Enabled {
			about.Events, about.ThrottleSeconds, about.SeverityMin, about.URL = cfg.Events, cfg.ThrottleSeconds, string(cfg.SeverityMin), cfg.URL
		}
	})
	if err != nil {
		h.OK, h.Reason = false, err.Error()
	}
	return h
}
