package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/mcpevents"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// feed has the alerts for the Events extension, whose subscriptions each have a
// place of their own. It is on the link's connection, and goes on with the next
// one where that is closed for good.
type feed struct {
	link   *link
	settle func(context.Context)
	// hushed says what is told to nobody, and shows what may be seen here at all.
	hushed, shows func(alert.Alert) bool
	mask          *redact.Engine
	log           *slog.Logger
}

// conn is the connection, or nil where the bus can't be reached.
func (f *feed) conn() *bus.Conn {
	if c := f.link.conn.Load(); c != nil && c.Connected() {
		return c
	}
	return nil
}

// State implements events.Source.
func (f *feed) State(ctx context.Context) (mcpevents.State, error) {
	f.settle(ctx)
	c := f.conn()
	if c == nil {
		return mcpevents.State{}, errAway
	}
	s, err := c.JS.Stream(ctx, bus.StreamAlerts)
	if errors.Is(err, context.DeadlineExceeded) {
		return mcpevents.State{}, errSilent
	}
	if err != nil {
		return mcpevents.State{}, fmt.Errorf("look at the alerts: %w", err)
	}
	info := s.CachedInfo()
	state := mcpevents.State{Created: info.Created, First: info.State.FirstSeq, Last: info.State.LastSeq}
	if info.State.Msgs == 0 {
		state.First = state.Last + 1
	}
	return state, nil
}

// Read implements events.Source.
func (f *feed) Read(ctx context.Context, after uint64, limit int) ([]mcpevents.Arrival, error) {
	c := f.conn()
	if c == nil {
		return nil, errAway
	}
	messages, err := c.StoredFrom(ctx, bus.StreamAlerts, after+1, limit)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, errSilent
	}
	if err != nil {
		return nil, err
	}
	list := make([]mcpevents.Arrival, len(messages))
	for i, m := range messages {
		list[i] = f.arrival(m, time.Time{})
	}
	return list, nil
}

// Suppressed implements [mcpevents.Source].
func (f *feed) Suppressed(a alert.Alert) bool { return f.hushed(a) }

// Follow implements events.Source.
func (f *feed) Follow(ctx context.Context, after mcpevents.Position, hand func(mcpevents.Arrival)) {
	cfg := bus.FollowConfig{Stream: bus.StreamAlerts, Start: after.Seq + 1, Created: after.Created, Logger: f.log}
	f.link.chase(ctx, cfg, func(m bus.Message, created time.Time) { hand(f.arrival(m, created)) })
}

// arrival reads a message of the stream that was made at created. Of an alert that
// is silenced, or may not be seen here, there is only the place.
func (f *feed) arrival(m bus.Message, created time.Time) mcpevents.Arrival {
	arrived := mcpevents.Arrival{At: mcpevents.Position{Seq: m.Seq, Created: created}, Time: m.Time}
	var a alert.Alert
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return arrived // said when the inbox met it
	}
	if !f.shows(a) {
		return arrived
	}
	a.Seq = m.Seq
	a = display.Alert(a, f.mask)
	if !f.hushed(a) {
		arrived.Alert = &a
	}
	return arrived
}
