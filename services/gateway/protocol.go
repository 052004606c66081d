package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// protocolVersions are those that allow a server to send messages on its own,
// newest first.
func protocolVersions() []string {
	return []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
}

// watch sees what the client asks of the protocol itself: who it is, and which
// level it wants.
func (g *gateway) watch(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		switch params := r.GetParams().(type) {
		case *mcp.InitializeParams:
			return g.initialize(ctx, method, r, params, next)
		case *mcp.SetLoggingLevelParams:
			result, err := next(ctx, method, r)
			if err != nil {
				return nil, err
			}
			return result, g.session.do(g.life, func(s *session, _ time.Time) { s.stream.SetFloor(floor(params.Level)) })
		default:
			return next(ctx, method, r)
		}
	}
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
		g.greeting, _ = result.(*mcp.InitializeResult)
		client := "unknown"
		if params.ClientInfo != nil && params.ClientInfo.Name != "" {
			client = params.ClientInfo.Name
		}
		g.link.identify(client + " in " + g.cfg.Dir)
	})
	if first {
		return result, err
	}
	if g.greeting == nil { // the first one failed
		return next(ctx, method, r)
	}
	again := *g.greeting
	again.ProtocolVersion = protocolVersions()[0]
	if slices.Contains(protocolVersions(), params.ProtocolVersion) {
		again.ProtocolVersion = params.ProtocolVersion
	}
	return &again, g.session.do(g.life, func(s *session, _ time.Time) {
		s.stream.Disable()
		s.stream.SetFloor(0)
	})
}

// floor is the least severity rank that a level of MCP lets through. Above error
// nothing of ours passes.
func floor(level mcp.LoggingLevel) int {
	switch level {
	case "debug", "info":
		return alert.Info.Rank()
	case "notice", "warning":
		return alert.Warning.Rank()
	case "error":
		return alert.Error.Rank()
	default:
		return alert.Error.Rank() + 1
	}
}
