package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/stream"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// configure does what its action says.
func (g *gateway) configure(ctx context.Context, data json.RawMessage) (answer, error) {
	a := readArguments(data)
	action := a.word("action", "", "streaming", "noise", "clear", "health")
	switching := a.optional("streaming_action", "enable", "disable", "status")
	config := readStream(a)
	noise := readNoise(a)
	if err := a.done(); err != nil {
		return nil, err
	}
	switch action {
	case "streaming":
		if switching == "" {
			return nil, errors.New("streaming_action must be one of enable, disable, status")
		}
		return g.switchStream(ctx, switching, config)
	case "noise":
		if noise.Action == "" {
			return nil, errors.New("noise_action must be one of list, add, remove, auto_detect")
		}
		return g.noise(ctx, noise)
	case "clear":
		g.settle(ctx)
		return g.clear()
	default:
		g.settle(ctx)
		return g.health(ctx)
	}
}

// configureStreaming is configure's streaming as a tool of its own.
func (g *gateway) configureStreaming(ctx context.Context, data json.RawMessage) (answer, error) {
	a := readArguments(data)
	action := a.word("action", "", "enable", "disable", "status")
	config := readStream(a)
	if err := a.done(); err != nil {
		return nil, err
	}
	return g.switchStream(ctx, action, config)
}

func readStream(a *arguments) stream.Config {
	config := stream.DefaultConfig()
	config.Events = a.words("events", config.Events, stream.Filters()...)
	config.ThrottleSeconds = a.whole("throttle_seconds", config.ThrottleSeconds, stream.MinThrottleSeconds, stream.MaxThrottleSeconds)
	config.URL = a.text("url_filter", maxText)
	config.SeverityMin = alert.Severity(a.word("severity_min", string(config.SeverityMin), "info", "warning", "error"))
	return config
}

func readNoise(a *arguments) query.NoiseRequest {
	return query.NoiseRequest{
		Action:  query.NoiseAction(a.optional("noise_action", "list", "add", "remove", "auto_detect")),
		App:     a.text("app", maxText),
		Pattern: a.text("pattern", maxText),
		Kind:    telemetry.Kind(a.optional("kind", "log", "network")),
		RuleID:  a.text("rule_id", maxText),
	}
}

// switchStream enables, disables or describes the stream of notifications.
func (g *gateway) switchStream(ctx context.Context, action string, config stream.Config) (answer, error) {
	if action == "enable" {
		g.settle(ctx) // what was raised before stays in the inbox and is no news for the stream
	}
	var reply any
	err := g.session.do(g.life, func(s *session, _ time.Time) {
		switch action {
		case "enable":
			config.Enabled = true
			s.stream.Enable(config)
			reply = struct {
				Status string        `json:"status"`
				Config stream.Config `json:"config"`
			}{"enabled", s.stream.Config()}
		case "disable":
			reply = struct {
				Status         string `json:"status"`
				PendingCleared int    `json:"pending_cleared"`
			}{"disabled", s.stream.Disable()}
		default:
			reply = s.describeStream()
		}
	})
	return encoded(reply, err)
}

func (s *session) describeStream() streamReply {
	stats := s.stream.Stats()
	return streamReply{
		Config: s.stream.Config(), NotifyCount: stats.NotifyCount, Pending: stats.Pending,
		Suppressed: stats.Suppressed, Dropped: stats.Dropped,
	}
}

// noise lists or changes the noise rules, which the detector has.
func (g *gateway) noise(ctx context.Context, r query.NoiseRequest) (answer, error) {
	g.settle(ctx)
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	reply, err := ask[query.NoiseReply](ctx, g, query.SubjectNoise, r)
	return encoded(reply, err)
}

// clear empties the inbox without telling what was in it.
func (g *gateway) clear() (answer, error) {
	var reply struct {
		Status  string `json:"status"`
		Cleared int    `json:"alerts_cleared"`
	}
	var at position
	err := g.session.do(g.life, func(s *session, _ time.Time) {
		reply.Status, reply.Cleared, at = "cleared", s.inbox.Clear(), s.at
	})
	if err == nil && reply.Cleared > 0 {
		if _, saveErr := g.saver.save(g.life, at); saveErr != nil {
			g.log.Warn("the inbox was emptied and can't be marked so yet", "error", saveErr)
		}
	}
	return encoded(reply, err)
}

// healthReply is how the gateway and what it depends on are.
type healthReply struct {
	Bus      busHealth             `json:"bus"`
	Detector *query.DetectorStatus `json:"detector"`
	// Error says why the detector's part is missing.
	Error     string      `json:"error,omitempty"`
	Inbox     inboxHealth `json:"inbox"`
	Streaming streamReply `json:"streaming"`
	// NotificationsLost were not read by the client in time.
	NotificationsLost uint64 `json:"notifications_lost"`
	Version           string `json:"version"`
	Client            string `json:"client"`
}

type inboxHealth struct {
	Pending int `json:"pending"`
	// Received counts alerts that came since the gateway started, Evicted those
	// that had to go from a full inbox.
	Received uint64 `json:"received"`
	Evicted  uint64 `json:"evicted"`
}

func (g *gateway) health(ctx context.Context) (answer, error) {
	h := healthReply{Version: g.cfg.Version, Client: visible(g.link.client())}
	h.Bus.Connected = g.connected() == nil
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if status, err := ask[query.StatusReply](ctx, g, query.SubjectStatus, struct{}{}); err != nil {
		h.Error = visible(err.Error())
	} else {
		h.Detector = &status.Detector
	}
	err := g.session.do(g.life, func(s *session, _ time.Time) {
		h.Inbox = inboxHealth{Pending: s.inbox.Len(), Received: s.received, Evicted: s.inbox.Evicted()}
		h.Streaming, h.NotificationsLost = s.describeStream(), s.lost
	})
	return encoded(h, err)
}

func encoded(reply any, err error) (answer, error) {
	if err != nil {
		return nil, err
	}
	text, err := encode(reply)
	if err != nil {
		return nil, err
	}
	return answer{text}, nil
}
