package mcpserver

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Protocol selects the versions of MCP.
type Protocol string

const (
	// Compatible selects the versions that let a server send unsolicited messages. A
	// client that proposes a newer one gets the newest of these.
	Compatible Protocol = "compatible"
	// Latest adds 2026-07-28 for clients that propose it. That version forbids unsolicited
	// messages, so only the delivery channel events works.
	Latest Protocol = "latest"
)

// version20260728 has no initialize and no unsolicited messages.
const version20260728 = "2026-07-28"

// versions returns the selected versions, newest first.
func (p Protocol) versions() []string {
	if p == Latest {
		return append([]string{version20260728}, handshakeVersions()...)
	}
	return handshakeVersions()
}

// handshakeVersions returns the versions that start with initialize, newest first.
func handshakeVersions() []string {
	return []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
}

// errTooManyClients refuses another client.
var errTooManyClients = &jsonrpc.Error{Code: codeBusy, Message: errClientLimit.Error()}

// batches reports whether the negotiated protocol has batches.
func (s *server) batches() bool {
	version := s.protocol.Load()
	return version != nil && *version < "2025-06-18"
}

// announce records what a client announced, in the negotiated version.
func (s *server) announce(version string, client *mcp.Implementation, can *mcp.ClientCapabilities) {
	p := newPeer(version, client, can)
	s.announced.Store(&p)
	s.protocol.Store(&version)
	s.alerts.Identify(s.transport.inboxKey(clientName(client))) // the first call counts
}

// watchProtocol is middleware that records what the client announces about itself, and its
// logging level.
func (s *server) watchProtocol(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		switch params := r.GetParams().(type) {
		case *mcp.InitializeParams:
			return s.initialize(ctx, method, r, params, next)
		case *mcp.SetLoggingLevelParams:
			rank, ok := minRank(params.Level)
			if !ok {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "level must be one of " + strings.Join(loggingLevels(), ", ")}
			}
			result, err := next(ctx, method, r)
			if err != nil {
				return nil, err
			}
			s.minRank.Store(int32(rank))
			return result, s.alerts.Do(func(state *delivery.State, _ time.Time) { state.Notifier.SetFloor(rank) })
		default:
			s.recordIntroduction(r)
			return next(ctx, method, r)
		}
	}
}

// introduced is a request that announces its client, as every request does since
// 2026-07-28.
type introduced interface {
	ProtocolVersion() string
	ClientInfo() *mcp.Implementation
	ClientCapabilities() *mcp.ClientCapabilities
}

// recordIntroduction records what a client without initialize announces in its requests. It
// ignores a client that negotiated an older version, because the SDK returns the version that
// the client proposed.
func (s *server) recordIntroduction(r mcp.Request) {
	if negotiated := s.protocol.Load(); negotiated != nil && *negotiated < version20260728 {
		return
	}
	if from, ok := r.(introduced); ok && from.ProtocolVersion() >= version20260728 {
		s.announce(from.ProtocolVersion(), from.ClientInfo(), from.ClientCapabilities())
	}
}

// initialize starts an MCP session. A client that initializes again on the same
// connection gets the same greeting, and notifications are disabled for it.
func (s *server) initialize(ctx context.Context, method string, r mcp.Request, params *mcp.InitializeParams, next mcp.MethodHandler) (mcp.Result, error) {
	first := false
	var result mcp.Result
	var err error
	s.initialized.Do(func() {
		first = true
		if result, err = next(ctx, method, r); err != nil {
			return
		}
		if s.greeting, _ = result.(*mcp.InitializeResult); s.greeting == nil {
			return
		}
		s.announce(s.greeting.ProtocolVersion, params.ClientInfo, params.Capabilities)
		result = s.greet(s.greeting.ProtocolVersion)
		if session, ok := r.GetSession().(*mcp.ServerSession); ok && s.transport.sessionStarted != nil && !s.transport.sessionStarted(session) {
			result, err = nil, errTooManyClients
		}
	})
	if first {
		return result, err
	}
	if s.greeting == nil { // the first one failed
		return next(ctx, method, r)
	}
	version := handshakeVersions()[0]
	if slices.Contains(handshakeVersions(), params.ProtocolVersion) {
		version = params.ProtocolVersion
	}
	s.announce(version, params.ClientInfo, params.Capabilities)
	return s.greet(version), s.resetSession(ctx)
}

// resetSession forgets the settings and subscriptions of the session before.
func (s *server) resetSession(ctx context.Context) error {
	s.minRank.Store(0)
	err := s.alerts.Do(func(state *delivery.State, _ time.Time) { state.ResetSettings() })
	return errors.Join(err, s.kubernetes.UnsubscribeAll(ctx))
}

// greet returns the answer to initialize. It offers a Claude channel only to a client that
// supports it.
func (s *server) greet(version string) *mcp.InitializeResult {
	greeting := *s.greeting
	greeting.ProtocolVersion = version
	if s.peer().ClaudeChannel {
		can := *s.greeting.Capabilities
		can.Experimental = maps.Clone(can.Experimental)
		if can.Experimental == nil {
			can.Experimental = map[string]any{}
		}
		can.Experimental[notifier.ClaudeChannelCapability] = struct{}{}
		greeting.Capabilities, greeting.Instructions = &can, greeting.Instructions+channelInstructions
	}
	return &greeting
}

// loggingLevels lists the logging levels of MCP, which are those of syslog.
func loggingLevels() []string {
	return []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

// minRank returns the least severity rank that a logging level lets through. Above
// error it is higher than any.
func minRank(level mcp.LoggingLevel) (rank int, ok bool) {
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
