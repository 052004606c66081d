package mcpserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/history"
	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/services/gateway/notify"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// action is the action of configure.
type action string

const (
	actionStreaming   action = "streaming"
	actionNoise       action = "noise"
	actionClear       action = "clear"
	actionHealth      action = "health"
	actionAck         action = "ack"
	actionUnack       action = "unack"
	actionSilence     action = "silence"
	actionSilenceList action = "silence_list"
	actionUnsilence   action = "unsilence"
)

func actions() []action {
	return []action{
		actionStreaming, actionNoise, actionClear, actionHealth, actionAck, actionUnack, actionSilence, actionSilenceList, actionUnsilence,
	}
}

// streamingAction is the action on notifications.
type streamingAction string

const (
	streamingEnable  streamingAction = "enable"
	streamingDisable streamingAction = "disable"
	streamingStatus  streamingAction = "status"
)

func streamingActions() []streamingAction {
	return []streamingAction{streamingEnable, streamingDisable, streamingStatus}
}

// streamingArgs select the alerts that become notifications.
type streamingArgs struct {
	Events          []string           `json:"events" enum:"filter" default:"all" jsonschema:"Which alerts"`
	ThrottleSeconds int                `json:"throttle_seconds" min:"1" max:"60" default:"5" jsonschema:"At most one notification in this time"`
	URLFilter       string             `json:"url_filter" max:"2048" default:"" jsonschema:"Only alerts with this in their URL (plain substring); alerts not about a URL, such as ci, pass"`
	SeverityMin     alert.Severity     `json:"severity_min" enum:"severity" default:"warning"`
	Via             []delivery.Channel `json:"via" enum:"channel" jsonschema:"Delivery channels; default: all that this client supports"`
}

func (a streamingArgs) config() notifier.Config {
	return notifier.Config{Events: a.Events, ThrottleSeconds: a.ThrottleSeconds, SeverityMin: a.SeverityMin, URL: a.URLFilter}
}

// configureArgs are the arguments of configure.
type configureArgs struct {
	Action          action          `json:"action" enum:"action" required:"true"`
	StreamingAction streamingAction `json:"streaming_action" enum:"streaming_action" jsonschema:"For streaming"`
	streamingArgs
	NoiseAction query.NoiseAction `json:"noise_action" enum:"noise_action" jsonschema:"For noise"`
	App         string            `json:"app" max:"2048" jsonschema:"For noise and silence: only this app"`
	Pattern     string            `json:"pattern" max:"2048" jsonschema:"For noise add: plain substring (no wildcards) of a message or URL that is noise"`
	Kind        telemetry.Kind    `json:"kind" enum:"noise_kind" jsonschema:"For noise add: only this kind"`
	RuleID      string            `json:"rule_id" max:"2048" jsonschema:"For noise remove; for noise add without pattern: a proposed or removed rule to apply"`
	silenceArgs
}

// configure runs the action that its arguments name.
func (s *server) configure(ctx context.Context, args configureArgs, _ call) (answer, error) {
	switch args.Action {
	case actionStreaming:
		if args.StreamingAction == "" {
			return nil, errors.New("streaming_action must be one of " + strings.Join(names(streamingActions()), ", "))
		}
		return s.streaming(ctx, args.StreamingAction, args.streamingArgs)
	case actionNoise:
		if args.NoiseAction == "" {
			return nil, errors.New("noise_action must be one of " + strings.Join(enums()["noise_action"], ", "))
		}
		return s.noise(ctx, query.NoiseRequest{
			Action: args.NoiseAction, App: args.App, Pattern: args.Pattern, Kind: args.Kind, RuleID: args.RuleID,
		})
	case actionClear:
		return s.clear(ctx)
	case actionHealth:
		return s.reportHealth(ctx)
	default:
		return s.changeSilences(ctx, args.Action, args.App, args.silenceArgs)
	}
}

// configureStreamingArgs are the arguments of configure_streaming.
type configureStreamingArgs struct {
	Action streamingAction `json:"action" enum:"streaming_action" required:"true"`
	streamingArgs
}

// configureStreaming is configure's action streaming as a tool of its own.
func (s *server) configureStreaming(ctx context.Context, args configureStreamingArgs, _ call) (answer, error) {
	return s.streaming(ctx, args.Action, args.streamingArgs)
}

// streaming enables, disables or describes notifications.
func (s *server) streaming(ctx context.Context, action streamingAction, args streamingArgs) (answer, error) {
	peer := s.peer()
	var chosen []delivery.Channel
	for _, c := range args.Via {
		if !slices.Contains(chosen, c) {
			chosen = append(chosen, c)
		}
	}
	channels, err := peer.Choose(chosen)
	if action == streamingEnable {
		if err != nil {
			return nil, err
		}
		s.alerts.WaitForPast(ctx) // what was raised before stays in the inbox and is not news
	}
	var reply any
	err = s.alerts.Do(func(state *delivery.State, _ time.Time) {
		switch action {
		case streamingEnable:
			state.Enable(args.config(), channels)
			reply = struct {
				Status string          `json:"status"`
				Config notifier.Config `json:"config"`
				channelsReply
			}{"enabled", state.Notifier.Config(), describeChannels(state, peer, chosen != nil)}
		case streamingDisable:
			reply = struct {
				Status         string `json:"status"`
				PendingCleared int    `json:"pending_cleared"`
			}{"disabled", state.Disable()}
		default:
			reply = describeStreaming(state, peer)
		}
	})
	return encoded(reply, err)
}

// channelsReply names the delivery channels, unless message is the only one.
type channelsReply struct {
	Via  []delivery.Channel `json:"via,omitzero"`
	Note string             `json:"note,omitempty"`
}

func describeChannels(state *delivery.State, p peer, chosen bool) channelsReply {
	if !chosen && slices.Equal(state.Channels, []delivery.Channel{delivery.ChannelMessage}) {
		return channelsReply{}
	}
	via := state.Channels
	if via == nil {
		via = []delivery.Channel{} // [] on the wire: the client has to choose one
	}
	return channelsReply{via, p.note(via)}
}

// streamingReply is the answer to streaming's status.
type streamingReply struct {
	Config      notifier.Config `json:"config"`
	NotifyCount int             `json:"notify_count"`
	Pending     int             `json:"pending"`
	Suppressed  int             `json:"suppressed"`
	Dropped     int             `json:"dropped"`
	channelsReply
}

func describeStreaming(state *delivery.State, p peer) streamingReply {
	stats := state.Notifier.Stats()
	return streamingReply{
		Config: state.Notifier.Config(), NotifyCount: stats.NotifyCount, Pending: stats.Pending,
		Suppressed: stats.Suppressed, Dropped: stats.Dropped, channelsReply: describeChannels(state, p, false),
	}
}

// noise lists or changes the noise rules, which the detector has.
func (s *server) noise(ctx context.Context, r query.NoiseRequest) (answer, error) {
	s.alerts.WaitForPast(ctx)
	ctx, cancel := context.WithTimeout(ctx, busclient.RequestTimeout)
	defer cancel()
	reply, err := busclient.Ask[query.NoiseReply](ctx, s.bus, query.SubjectNoise, r)
	return encoded(reply, err)
}

// clear empties the inbox without delivering its alerts.
func (s *server) clear(ctx context.Context) (answer, error) {
	s.alerts.WaitForPast(ctx)
	cleared, err := s.alerts.Clear(ctx)
	return encoded(struct {
		Status  string `json:"status"`
		Cleared int    `json:"alerts_cleared"`
	}{"cleared", cleared}, err)
}

// healthReply is the health of the gateway and what it depends on.
type healthReply struct {
	Bus history.BusHealth `json:"bus"`
	// Ingest is null if ingest's health is unknown.
	Ingest   *history.IngestHealth `json:"intake"`
	Detector *query.DetectorStatus `json:"detector"`
	// Error is why the detector's part is missing.
	Error     string         `json:"error,omitempty"`
	Inbox     inboxHealth    `json:"inbox"`
	Streaming streamingReply `json:"streaming"`
	// NotificationsLost counts those that the client did not read in time.
	NotificationsLost uint64 `json:"notifications_lost"`
	// Kubernetes is nil if no kubewatch was ever seen.
	Kubernetes *kubernetes.Health `json:"kubernetes,omitempty"`
	// Investigator is nil if no investigator was ever seen, or its health is unknown.
	Investigator *history.InvestigatorHealth `json:"investigator,omitempty"`
	// Notices has the sinks for messages to the user, if any is configured.
	Notices []notify.Health `json:"notices,omitempty"`
	Version string          `json:"version"`
	Client  string          `json:"client"`
}

type inboxHealth struct {
	Pending int `json:"pending"`
	// Received counts alerts since the gateway started, Evicted those that were dropped
	// because the inbox was full.
	Received uint64 `json:"received"`
	Evicted  uint64 `json:"evicted"`
	// Silenced counts those that a silence or an acknowledgement suppressed.
	Silenced uint64 `json:"silenced"`
}

// reportHealth is configure's action health.
func (s *server) reportHealth(ctx context.Context) (answer, error) {
	s.alerts.WaitForPast(ctx)
	h := healthReply{Version: s.cfg.Version, Client: sanitize.Visible(s.alerts.Inbox()), Notices: s.cfg.Notices.Health()}
	h.Bus.Connected = s.bus.Connected() == nil
	ctx, cancel := context.WithTimeout(ctx, busclient.RequestTimeout)
	defer cancel()
	ingest := s.history.Ingest(ctx)
	var investigator <-chan *history.InvestigatorHealth
	if s.toolset.investigation.wasSeen() {
		investigator = s.history.Investigators(ctx)
	}
	if status, err := s.history.DetectorStatus(ctx); err != nil {
		h.Error = sanitize.Visible(err.Error())
	} else {
		h.Detector, h.Error = &status.Detector, status.Detector.Incomplete()
	}
	h.Ingest = (<-ingest).Health
	h.Kubernetes = s.kubernetes.Health()
	if investigator != nil {
		h.Investigator = <-investigator
	}
	s.alerts.DiscardDelivered(ctx)
	err := s.alerts.Do(func(state *delivery.State, _ time.Time) {
		h.Inbox = inboxHealth{
			Pending: state.Inbox.Len(), Received: state.Received, Evicted: state.Inbox.Evicted(), Silenced: state.Inbox.Stats().Silenced,
		}
		h.Streaming, h.NotificationsLost = describeStreaming(state, s.peer()), state.Dropped
	})
	return encoded(h, err)
}
