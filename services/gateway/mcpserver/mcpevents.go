package mcpserver

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpevents"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
)

// responseKey is the context key of the HTTP response for a request.
type responseKey struct{}

// withResponse lets handlers find the HTTP response of their request.
func (s *server) withResponse(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if to := s.responseTo(r); to != nil {
			ctx = context.WithValue(ctx, responseKey{}, to)
		}
		return next(ctx, method, r)
	}
}

// addEvents adds the Events extension to a server.
func (s *server) addEvents(m *mcp.Server) {
	err := mcpevents.Register(m, mcpevents.Config{
		Source:         alertSource{s},
		Writer:         s.eventWriter,
		RequestContext: s.callOnResponse,
		Stopping:       s.life.Stopping(),
		Defaults:       s.defaultFilters,
	})
	if err != nil { // a method has the same name as one of the SDK's
		s.log.Error("cannot serve the events extension", "error", err)
	}
}

// defaultFilters returns the filters of a subscription that names none: those of the
// client's notifications, if these use the channel events too.
func (s *server) defaultFilters() notifier.Config {
	cfg := notifier.DefaultConfig()
	// It fails at shutdown only; then the default is good enough.
	_ = s.alerts.Do(func(state *delivery.State, _ time.Time) {
		if slices.Contains(state.Channels, delivery.ChannelEvents) && state.Notifier.Config().Enabled {
			cfg = state.Notifier.Config()
		}
	})
	return cfg
}

// eventWriter returns the function that writes a stream's notifications: over HTTP to the
// response of the request that opened the stream, or nil if there is none.
func (s *server) eventWriter(ctx context.Context) func([]byte) error {
	if to, ok := ctx.Value(responseKey{}).(*response); ok {
		return to.message
	}
	if s.transport.response != nil {
		return nil
	}
	return func(line []byte) error {
		_, err := s.out.Write(line)
		return err
	}
}

// callOnResponse is [busclient.Lifetime.Call] for a call that can be answered on one HTTP
// response only: the end of the response ends the call.
func (s *server) callOnResponse(call context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := s.life.Call(call)
	to, ok := call.Value(responseKey{}).(*response)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(to.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// alertSource implements [mcpevents.Source]. Each subscription has its own position in the
// stream of alerts.
type alertSource struct{ *server }

// State implements [mcpevents.Source].
func (s alertSource) State(ctx context.Context) (bus.State, error) {
	s.alerts.WaitForPast(ctx)
	state, err := s.bus.State(ctx, bus.StreamAlerts)
	if err != nil {
		return bus.State{}, s.bus.Explain(ctx, err)
	}
	return state, nil
}

// Read implements [mcpevents.Source].
func (s alertSource) Read(ctx context.Context, after uint64, limit int) ([]mcpevents.Arrival, error) {
	session, err := s.bus.Session()
	if err != nil {
		return nil, err
	}
	messages, err := session.Read(ctx, bus.StreamAlerts, after+1, limit)
	if err != nil {
		return nil, s.bus.Explain(ctx, err)
	}
	list := make([]mcpevents.Arrival, len(messages))
	for i, m := range messages {
		list[i] = s.arrival(m)
	}
	return list, nil
}

// Suppressed implements [mcpevents.Source]. An alert that the filter has not checked before
// may end an acknowledgement.
func (s alertSource) Suppressed(a alert.Alert) (suppressed bool) {
	// It fails at shutdown only, when nothing is delivered.
	_ = s.alerts.Do(func(state *delivery.State, now time.Time) { _, suppressed = state.Silences.Check(a, now) })
	return suppressed
}

// Follow implements [mcpevents.Source].
func (s alertSource) Follow(ctx context.Context, after bus.Position, handle func(mcpevents.Arrival)) {
	cfg := bus.FollowConfig{Stream: bus.StreamAlerts, After: after, Logger: s.log}
	s.bus.Follow(ctx, cfg, func(m bus.Message) { handle(s.arrival(m)) })
}

// arrival decodes a message. The alert is left out if it is suppressed or may not be shown
// here; then only the position matters.
func (s alertSource) arrival(m bus.Message) mcpevents.Arrival {
	arrived := mcpevents.Arrival{Position: m.Position(), Time: m.Time}
	var a alert.Alert
	if json.Unmarshal(m.Data, &a) != nil || !s.history.Shows(a) { // the inbox has logged a message that is no alert
		return arrived
	}
	a.Seq = m.Seq
	a = display.Alert(a, s.mask)
	if !s.Suppressed(a) {
		arrived.Alert = &a
	}
	return arrived
}
