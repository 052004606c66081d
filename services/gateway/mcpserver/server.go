// Package mcpserver serves alerts to coding agents over MCP: tools, resources and a
// prompt, on stdin and stdout for one client ([ServeStdio]) or on HTTP for several
// ([ServeHTTP]).
//
// Each client has a [server] of its own, made of an inbox and its delivery (package
// delivery), history, Kubernetes subscriptions and resource updates. The package knows
// the protocol; what is delivered and when is decided by the packages that it uses.
package mcpserver

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/history"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpevents"
	"github.com/tocsin-bus/tocsin/services/gateway/notify"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

const (
	// ServerName is the name of the MCP server.
	ServerName = "tocsin"
	// answerTimeout is how long calls under way may take once the server stops
	// accepting, and endTimeout how long each part of the rest may: together under a
	// second.
	answerTimeout = 400 * time.Millisecond
	endTimeout    = 150 * time.Millisecond
)

// Config is the configuration of a gateway: its client, and the bus.
type Config struct {
	// Bus is how to connect. This package sets Role, and Name if it is empty.
	Bus bus.Config
	// Client names the client whose inbox this is. When it is empty, the name that the
	// MCP client announces and Dir are used.
	Client string
	// Dir is the working directory of the client.
	Dir string
	// Protocol selects the versions of MCP. Empty means Compatible.
	Protocol Protocol
	// Kubernetes limits the namespaces that are shown and the number of subscriptions. The
	// zero value shows all namespaces.
	Kubernetes kubernetes.Config
	// Notices delivers the agent's messages to its user, in addition to log and bus. It may
	// be nil; the caller runs it.
	Notices *notify.Dispatcher
	// Stdin and Stdout are those of ServeStdio.
	Stdin   io.Reader
	Stdout  io.Writer
	Version string
	Logger  *slog.Logger
	// Extend may add to each MCP server before it serves. It may be nil.
	Extend func(*mcp.Server)
}

// transport is how a client is reached. All fields but output may be zero.
type transport struct {
	// output takes the messages that the client did not request.
	output output
	// inboxKey returns the inbox key of a client that the user has not named, from the
	// name that it announces. Nil means that name and the working directory.
	inboxKey func(client string) string
	// ephemeral clients never come back.
	ephemeral bool
	// response returns the HTTP response for a call, by the header of its request. Nil
	// means that everything goes to output.
	response func(http.Header) *response
	// sessionID makes the ids of MCP sessions.
	sessionID func() string
	// sessionStarted is called when an MCP session begins, and reports whether it may. Nil
	// means yes.
	sessionStarted func(*mcp.ServerSession) bool
	// quota is shared by all clients of a process.
	quota *kubernetes.Quota
}

// server serves one client.
type server struct {
	cfg       Config
	transport transport
	// life bounds calls. Their own contexts end with stdin, when they can still be
	// answered.
	life  *busclient.Lifetime
	parts errgroup.Group
	mcp   *mcp.Server

	bus *busclient.Client
	// onBus ends with closeBus, once everything that uses the session has ended.
	onBus      context.Context
	closeBus   context.CancelFunc
	alerts     *delivery.Client
	history    *history.Reader
	kubernetes *kubernetes.Subscriptions
	updates    *resourceUpdates
	out        output
	mask       *redact.Engine
	log        *slog.Logger

	// started is when the server was created.
	started time.Time
	// toolset knows which tools are listed.
	toolset *toolset
	// minRank is the least severity that the client's logging level lets through.
	minRank atomic.Int32

	initialized sync.Once
	greeting    *mcp.InitializeResult
	// protocol is the version that was negotiated last.
	protocol atomic.Pointer[string]
	// announced is what the client announced last.
	announced atomic.Pointer[peer]
}

// newServer returns the server of one client, which [server.start] starts.
func newServer(life *busclient.Lifetime, cfg Config, t transport) *server {
	log := cfg.Logger.With("component", "gateway")
	cfg.Bus.Name, cfg.Bus.Role, cfg.Bus.Logger = cmp.Or(cfg.Bus.Name, busclient.GatewayName), bus.RoleGateway, cfg.Logger
	if t.quota == nil {
		t.quota = cfg.Kubernetes.NewQuota()
	}
	if t.inboxKey == nil {
		t.inboxKey = func(client string) string { return inbox.Key(client, cfg.Dir) }
	}
	s := &server{
		cfg: cfg, transport: t, life: life, out: t.output, mask: redact.New(), log: log, started: time.Now(), toolset: newToolset(),
		bus: busclient.New(cfg.Bus, log),
	}
	s.onBus, s.closeBus = context.WithCancel(context.WithoutCancel(life.Context()))
	s.history = history.New(history.Config{Bus: s.bus, Namespaces: cfg.Kubernetes.Namespaces, Mask: s.mask, Logger: log})
	s.alerts = delivery.New(delivery.Config{
		Bus: s.bus, Life: life, Ephemeral: t.ephemeral, Visible: s.history.Shows, Changed: func(a alert.Alert) { s.updates.markChanged(a) },
		Mask: s.mask, Logger: log,
	})
	s.updates = newResourceUpdates(s)
	s.kubernetes = kubernetes.NewSubscriptions(kubernetes.SubscriptionsConfig{
		Bus: s.bus, Life: life, Namespaces: cfg.Kubernetes.Namespaces, Quota: t.quota, Writer: t.output, Accepts: s.accepts,
		WatchesRead: s.toolset.kubernetes.setRead, WatchSeen: s.toolset.kubernetes.setSeen, Mask: s.mask, Logger: log,
	})
	if cfg.Client != "" {
		s.alerts.Identify(inbox.NamedKey(cfg.Client))
	}
	s.mcp = s.newMCP()
	return s
}

// newMCP returns the MCP server with its tools, resources, prompt and extension.
func (s *server) newMCP() *mcp.Server {
	capabilities := &mcp.ServerCapabilities{
		Logging: &mcp.LoggingCapabilities{}, Tools: &mcp.ToolCapabilities{ListChanged: true},
		Resources: &mcp.ResourceCapabilities{Subscribe: true}, Prompts: &mcp.PromptCapabilities{},
	}
	mcpevents.Declare(capabilities)
	m := mcp.NewServer(&mcp.Implementation{Name: ServerName, Title: "Tocsin", Version: s.cfg.Version}, &mcp.ServerOptions{
		Instructions: instructions, Logger: slog.New(slog.DiscardHandler), SupportedProtocolVersions: s.cfg.Protocol.versions(),
		Capabilities: capabilities, GetSessionID: s.transport.sessionID,
		SubscribeHandler: s.updates.subscribe, UnsubscribeHandler: s.updates.unsubscribe,
	})
	s.addTools(m)
	s.addEvents(m)
	m.AddReceivingMiddleware(s.watchProtocol, s.withResponse, s.filterTools)
	s.addResources(m)
	s.addTriage(m)
	m.AddReceivingMiddleware(s.updates.watch) // last, so that it runs first: the others see no subscriptions
	if s.cfg.Extend != nil {
		s.cfg.Extend(m)
	}
	return m
}

// start starts the parts.
func (s *server) start() {
	ctx := s.life.Context()
	who := presence.Identify("gateway", s.cfg.Version, s.log)
	answerHealth := func(ctx context.Context, c *bus.Session) error { //nolint:unparam // busclient.Client.Run needs the error; a failure must not end the session
		if err := presence.Serve(ctx, c, who, s.health); err != nil {
			s.log.Debug("cannot answer health queries", "error", err) // the next connection tries again
		}
		return nil
	}
	s.parts.Go(s.alerts.Run)
	s.parts.Go(func() error {
		return s.bus.Run(s.onBus, s.alerts.Serve, s.kubernetes.FollowWatches, s.lookForInvestigator, answerHealth)
	})
	s.parts.Go(func() error { return s.updates.run(ctx) })
	s.parts.Go(func() error { return writeNotifications(ctx, s.out, s.alerts.Notifications(), s.log) })
}

// end aborts the parts, and waits until they have ended. The session is closed last, so
// that subscriptions can delete their consumers.
func (s *server) end() error {
	s.life.Abort()
	s.kubernetes.Wait()
	s.closeBus()
	return s.parts.Wait()
}

// lifecycle reads an alert and its later history, once the alerts of the past are known.
func (s *server) lifecycle(ctx context.Context, id string) (history.Lifecycle, error) {
	s.alerts.WaitForPast(ctx)
	ctx, cancel := context.WithTimeout(ctx, busclient.RequestTimeout)
	defer cancel()
	return s.history.Lifecycle(ctx, id)
}

// peer returns what the client announced.
func (s *server) peer() peer {
	if p := s.announced.Load(); p != nil {
		return *p
	}
	return peer{Capabilities: delivery.Capabilities{Unsolicited: true}}
}

// accepts reports whether the client takes notifications of a level.
func (s *server) accepts(level alert.Severity) bool {
	return s.peer().Unsolicited && level.Rank() >= int(s.minRank.Load())
}
