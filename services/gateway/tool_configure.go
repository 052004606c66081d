package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/services/gateway/notify"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// configure does what its action says.
func (g *gateway) configure(ctx context.Context, data json.RawMessage) (answer, error) {
	a := readArguments(data)
	action := a.word("action", "", "streaming", "noise", "clear", "health", actAck, actUnack, actSilence, actSilenceList, actUnsilence)
	switching := a.optional("streaming_action", "enable", "disable", "status")
	wish := readStream(a)
	noise := readNoise(a)
	quiet := readQuiet(a, noise.App)
	if err := a.done(); err != nil {
		return nil, err
	}
	switch action {
	case "streaming":
		if switching == "" {
			return nil, errors.New("streaming_action must be one of enable, disable, status")
		}
		return g.switchStream(ctx, switching, wish)
	case "noise":
		if noise.Action == "" {
			return nil, errors.New("noise_action must be one of list, add, remove, auto_detect")
		}
		return g.noise(ctx, noise)
	case actAck, actUnack, actSilence, actSilenceList, actUnsilence:
		return g.quieten(ctx, action, quiet)
	case "clear":
		g.settle(ctx)
		return g.clear(ctx)
	default:
		g.settle(ctx)
		return g.health(ctx)
	}
}

// configureStreaming is configure's streaming as a tool of its own.
func (g *gateway) configureStreaming(ctx context.Context, data json.RawMessage) (answer, error) {
	a := readArguments(data)
	action := a.word("action", "", "enable", "disable", "status")
	wish := readStream(a)
	if err := a.done(); err != nil {
		return nil, err
	}
	return g.switchStream(ctx, action, wish)
}

// wish is how a client wants to be told of alerts.
type wish struct {
	notifier.Config
	// via are the ways that were named; none means the usual ones.
	via []way
}

func readStream(a *arguments) wish {
	w := wish{Config: notifier.DefaultConfig()}
	w.Events = a.words("events", w.Events, notifier.Filters()...)
	w.ThrottleSeconds = a.whole("throttle_seconds", w.ThrottleSeconds, notifier.MinThrottleSeconds, notifier.MaxThrottleSeconds)
	w.URL = a.text("url_filter", maxText)
	w.SeverityMin = alert.Severity(a.word("severity_min", string(w.SeverityMin), "info", "warning", "error"))
	allowed := make([]string, 0, len(ways()))
	for _, known := range ways() {
		allowed = append(allowed, string(known))
	}
	for _, name := range a.words("via", nil, allowed...) {
		if !slices.Contains(w.via, way(name)) {
			w.via = append(w.via, way(name))
		}
	}
	return w
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
func (g *gateway) switchStream(ctx context.Context, action string, w wish) (answer, error) {
	peer := g.peer()
	via, err := peer.choose(w.via)
	if action == "enable" {
		if err != nil {
			return nil, err
		}
		g.settle(ctx) // what was raised before stays in the inbox and is no news for the stream
	}
	var reply any
	err = g.session.do(g.life, func(s *session, _ time.Time) {
		switch action {
		case "enable":
			w.Enabled = true
			s.stream.Enable(w.Config)
			s.ways, s.lines = via, nil
			reply = struct {
				Status string          `json:"status"`
				Config notifier.Config `json:"config"`
				told
			}{"enabled", s.stream.Config(), s.told(peer, w.via != nil)}
		case "disable":
			reply = struct {
				Status         string `json:"status"`
				PendingCleared int    `json:"pending_cleared"`
			}{"disabled", s.stream.Disable()}
			s.lines = nil // nobody has read them yet
		default:
			reply = s.describeStream(peer)
		}
	})
	return encoded(reply, err)
}

// told is what is said of the ways, where it isn't messages alone.
type told struct {
	Via  []way  `json:"via,omitzero"`
	Note string `json:"note,omitempty"`
}

func (s *session) told(p peer, asked bool) told {
	if plain(s.ways) && !asked {
		return told{}
	}
	via := s.ways
	if via == nil {
		via = []way{} // [] on the wire: none works by itself
	}
	return told{via, p.note(via)}
}

func (s *session) describeStream(p peer) streamReply {
	stats := s.stream.Stats()
	return streamReply{
		Config: s.stream.Config(), NotifyCount: stats.NotifyCount, Pending: stats.Pending,
		Suppressed: stats.Suppressed, Dropped: stats.Dropped, told: s.told(p, false),
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
func (g *gateway) clear(ctx context.Context) (answer, error) {
	g.forgetTold(ctx)
	var reply struct {
		Status  string `json:"status"`
		Cleared int    `json:"alerts_cleared"`
	}
	var at inbox.Position
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
	Bus busHealth `json:"bus"`
	// Intake reports whether the intake accepts events now, and why not; null where that is
	// not known.
	Intake   *intakeHealth         `json:"intake"`
	Detector *query.DetectorStatus `json:"detector"`
	// Error says why the detector's part is missing.
	Error     string      `json:"error,omitempty"`
	Inbox     inboxHealth `json:"inbox"`
	Streaming streamReply `json:"streaming"`
	// NotificationsLost were not read by the client in time.
	NotificationsLost uint64 `json:"notifications_lost"`
	// Kubernetes is there where a kubewatch is or was.
	Kubernetes *kubernetesHealth `json:"kubernetes,omitempty"`
	// Notices are the sinks of what the agent tells its user, where any is set.
	Notices []notify.Health `json:"notices,omitempty"`
	Version string          `json:"version"`
	Client  string          `json:"client"`
}

type inboxHealth struct {
	Pending int `json:"pending"`
	// Received counts alerts that came since the gateway started, Evicted those
	// that had to go from a full inbox.
	Received uint64 `json:"received"`
	Evicted  uint64 `json:"evicted"`
	// Silenced counts those that were told to nobody, because somebody silenced
	// or acknowledged them.
	Silenced uint64 `json:"silenced"`
}

// kubernetesHealth is what this client gets of Kubernetes.
type kubernetesHealth struct {
	// Clusters are watched now. Subscriptions are this client's.
	Clusters      []string `json:"clusters"`
	Subscriptions int      `json:"subscriptions"`
	// Degraded counts those that can get nothing for now.
	Degraded int `json:"degraded"`
}

func (g *gateway) health(ctx context.Context) (answer, error) {
	h := healthReply{Version: g.cfg.Version, Client: sanitize.Visible(g.link.client()), Notices: g.cfg.Notices.Health()}
	h.Bus.Connected = g.connected() == nil
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	asked := g.askIntakes(ctx)
	if status, err := ask[query.StatusReply](ctx, g, query.SubjectStatus, struct{}{}); err != nil {
		h.Error = sanitize.Visible(err.Error())
	} else {
		h.Detector, h.Error = &status.Detector, status.Detector.Incomplete()
	}
	h.Intake = (<-asked).health
	g.forgetTold(ctx)
	err := g.session.do(g.life, func(s *session, now time.Time) {
		h.Inbox = inboxHealth{Pending: s.inbox.Len(), Received: s.received, Evicted: s.inbox.Evicted(), Silenced: s.inbox.Stats().Silenced}
		h.Kubernetes = s.kubernetesHealth(now)
		h.Streaming, h.NotificationsLost = s.describeStream(g.peer()), s.lost
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
