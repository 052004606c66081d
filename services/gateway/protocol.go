package gateway

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/stream"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// protocolVersions are those that allow a server to send messages on its own,
// newest first.
func protocolVersions() []string {
	return []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
}

// batches says whether the protocol that was agreed on knows batches.
func (g *gateway) batches() bool {
	version := g.protocol.Load()
	return version != nil && *version < "2025-06-18"
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
			return result, g.session.do(g.life, func(s *session, _ time.Time) { s.stream.SetFloor(rank) })
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
		if g.greeting != nil {
			g.protocol.Store(&g.greeting.ProtocolVersion)
		}
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
	g.protocol.Store(&again.ProtocolVersion)
	return &again, g.session.do(g.life, func(s *session, _ time.Time) {
		s.stream = stream.New()
	})
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
