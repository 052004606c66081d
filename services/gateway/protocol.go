package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Protocol says which versions of MCP are spoken.
type Protocol string

const (
	// Compatible speaks those versions that let a server send messages on its
	// own. A client that proposes a newer one is brought down.
	Compatible Protocol = "compatible"
	// Latest speaks 2026-07-28 as well, with clients that want it. It forbids
	// messages that nobody asked for, so of streaming's ways only events work.
	Latest Protocol = "latest"
)

// version20260728 has no initialize and no messages that nobody asked for.
const version20260728 = "2026-07-28"

// versions are the versions that are spoken, newest first.
func (p Protocol) versions() []string {
	if p == Latest {
		return append([]string{version20260728}, handshakes()...)
	}
	return handshakes()
}

// handshakes are the versions that begin with initialize, newest first.
func handshakes() []string {
	return []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
}

// errFull refuses one client more.
var errFull = &jsonrpc.Error{Code: codeBusy, Message: "too many clients are served already: end one of their sessions"}

// batches says whether the protocol that was agreed on knows batches.
func (g *gateway) batches() bool {
	version := g.protocol.Load()
	return version != nil && *version < "2025-06-18"
}

// peer is what is known of the client.
func (g *gateway) peer() peer {
	if about := g.about.Load(); about != nil {
		return *about
	}
	return peer{unasked: true}
}

// meet notes what a client says of itself, in the version that was agreed on.
func (g *gateway) meet(version string, client *mcp.Implementation, can *mcp.ClientCapabilities) {
	about := peerOf(version, client, can)
	g.about.Store(&about)
	g.protocol.Store(&version)
	g.link.identify(g.inbox(clientName(client))) // the first time counts
}

// watch sees what the client asks of the protocol itself: who it is, and which
// level it wants.
func (g *gateway) watch(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		switch params := r.GetParams().(type) {
		case *mcp.InitializeParams:
			return g.initialize(ctx, method, r, params, next)
		case *mcp.SetLoggingLevelParams:
			rank, ok := floor(params.Level)
			if !ok {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "level must be one of " + strings.Join(levels(), ", ")}
			}
			result, err := next(ctx, method, r)
			if err != nil {
				return nil, err
			}
			g.floor.Store(int32(rank))
			return result, g.session.do(g.life, func(s *session, _ time.Time) { s.stream.SetFloor(rank) })
		default:
			g.recognize(r)
			return next(ctx, method, r)
		}
	}
}

// introduced is a request that says who asks, as each does since 2026-07-28.
type introduced interface {
	ProtocolVersion() string
	ClientInfo() *mcp.Implementation
	ClientCapabilities() *mcp.ClientCapabilities
}

// recognize takes a client without initialize for who it says it is. Of one that was
// brought down by initialize the SDK still gives the version that it proposed.
func (g *gateway) recognize(r mcp.Request) {
	if agreed := g.protocol.Load(); agreed != nil && *agreed < version20260728 {
		return
	}
	if who, ok := r.(introduced); ok && who.ProtocolVersion() >= version20260728 {
		g.meet(who.ProtocolVersion(), who.ClientInfo(), who.ClientCapabilities())
	}
}

func clientName(client *mcp.Implementation) string {
	if client == nil || client.Name == "" {
		return "unknown"
	}
	return client.Name
}

// initialize begins a session. One that begins anew on the same connection gets
// the same greeting; streaming is off for it.
func (g *gateway) initialize(ctx context.Context, method string, r mcp.Request, params *mcp.InitializeParams, next mcp.MethodHandler) (mcp.Result, error) {
	first := false
	var result mcp.Result
	var err error
	g.initialized.Do(func() {
		first = true
		if result, err = next(ctx, method, r); err != nil {
			return
		}
		if g.greeting, _ = result.(*mcp.InitializeResult); g.greeting == nil {
			return
		}
		g.meet(g.greeting.ProtocolVersion, params.ClientInfo, params.Capabilities)
		result = g.greet(g.greeting.ProtocolVersion)
		if session, ok := r.GetSession().(*mcp.ServerSession); ok && g.starts != nil && !g.starts(session) {
			result, err = nil, errFull
		}
	})
	if first {
		return result, err
	}
	if g.greeting == nil { // the first one failed
		return next(ctx, method, r)
	}
	version := handshakes()[0]
	if slices.Contains(handshakes(), params.ProtocolVersion) {
		version = params.ProtocolVersion
	}
	g.meet(version, params.ClientInfo, params.Capabilities)
	return g.greet(version), g.restart(ctx)
}

// restart begins anew: what the client wanted to be told is forgotten, and nothing of
// it comes any more.
func (g *gateway) restart(ctx context.Context) error {
	g.floor.Store(0)
	var ended []*subscription
	err := g.session.do(g.life, func(s *session, now time.Time) {
		s.restart(now)
		ended = s.takeSubscriptions()
	})
	for _, s := range ended {
		err = errors.Join(err, s.end(ctx, g.out))
	}
	return err
}

// greet is the answer to initialize. A client that takes a channel is offered one;
// the others get the same greeting as ever.
func (g *gateway) greet(version string) *mcp.InitializeResult {
	greeting := *g.greeting
	greeting.ProtocolVersion = version
	if g.peer().channel {
		can := *g.greeting.Capabilities
		can.Experimental = maps.Clone(can.Experimental)
		if can.Experimental == nil {
			can.Experimental = map[string]any{}
		}
		can.Experimental[notifier.ClaudeChannelCapability] = struct{}{}
		greeting.Capabilities, greeting.Instructions = &can, greeting.Instructions+channelInstructions
	}
	return &greeting
}

// levels are those of MCP, which has them from syslog.
func levels() []string {
	return []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

// floor is the least severity rank that a level of MCP lets through. Above error
// nothing of ours passes.
func floor(level mcp.LoggingLevel) (rank int, ok bool) {
	switch level {
	case "debug", "info":
		return alert.Info.Rank(), true
	case "notice", "warning":
		return alert.Warning.Rank(), true
	case "error":
		return alert.Error.Rank(), true
	case "critical", "alert", "emergency":
		return alert.Error.Rank() + 1, true
	default:
		return 0, false
	}
}
