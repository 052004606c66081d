package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/mcpevents"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// replyKey is where a request's context has the HTTP response that it is
// answered on.
type replyKey struct{}

// route lets handlers find the HTTP response of their request.
func (g *gateway) route(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if over := g.replyTo(r); over != nil {
			ctx = context.WithValue(ctx, replyKey{}, over)
		}
		return next(ctx, method, r)
	}
}

// addEvents adds the Events extension to the client's server.
func (g *gateway) addEvents(s *mcp.Server) {
	err := mcpevents.Register(s, mcpevents.Config{
		Source:   &feed{link: g.link, settle: g.settle, hushed: g.hushed, shows: g.shows, mask: g.mask, log: g.log},
		Notifier: g.notifier,
		Underway: g.underwayOn,
		Ending:   g.closing,
		Defaults: g.wanted,
	})
	if err != nil { // a method has the name of one of the SDK's
		g.log.Error("the events extension is not served", "error", err)
	}
}

// wanted is what a subscription gets that says nothing of it: what the client
// wants of its stream, where that goes by events too.
func (g *gateway) wanted() notifier.Config {
	wanted := notifier.DefaultConfig()
	// A session that has ended wants nothing else.
	_ = g.session.do(g.life, func(s *session, _ time.Time) {
		if slices.Contains(s.ways, viaEvents) && s.stream.Config().Enabled {
			wanted = s.stream.Config()
		}
	})
	return wanted
}

// hushed says whether the session holds an alert back. It hears by that of an
// alert that it has not met yet, and which may end an acknowledgement.
func (g *gateway) hushed(a alert.Alert) (hushed bool) {
	// A session that has ended holds nothing back, and nobody is told either.
	_ = g.session.do(g.life, func(s *session, now time.Time) { _, hushed = s.hush.hushes(a, now) })
	return hushed
}

// notifier is the way of a stream's notifications: over HTTP the response to the
// request that opened it, and nothing else.
func (g *gateway) notifier(ctx context.Context) func([]byte) error {
	if over, ok := ctx.Value(replyKey{}).(*reply); ok {
		return over.message
	}
	if g.reply != nil || g.out == nil {
		return nil
	}
	return func(line []byte) error {
		_, err := g.out.Write(line)
		return err
	}
}

// underwayOn is underway for what can be answered on one HTTP response only: the
// end of that ends it as well.
func (g *gateway) underwayOn(call context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := g.underway(call)
	over, ok := call.Value(replyKey{}).(*reply)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(over.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
