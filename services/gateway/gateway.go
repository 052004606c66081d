// Package gateway puts alerts in front of a coding agent: an MCP server on
// stdin and stdout, or on HTTP for several clients.
//
// Alerts wait in an inbox (package inbox) until the agent's next observe, and
// are pushed (package stream) once it asked for that. One loop owns both
// (session); around it stand the way to the bus (link), the client's place in
// the stream of alerts (saver), what is silenced (silencer) and the tools. Each
// client has its own. A hook has none: package glance reads the same inbox.
//
// The gateway is never ended by a bus that is away: it says so, and finds the
// bus again.
package gateway

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

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpevents"
	"github.com/tocsin-bus/tocsin/services/gateway/notify"
	"github.com/tocsin-bus/tocsin/services/gateway/resources"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

const (
	// name is the server's name, and the logger's of its notifications.
	name = "tocsin"
	// patience is how long after the start a call waits for the bus and for the
	// alerts that came before, so that the first observe has them.
	patience = 3 * time.Second
	// answerWithin is how long calls under way may take once stdin has ended,
	// and endWithin how long each part of the rest may: together under a second.
	answerWithin = 400 * time.Millisecond
	endWithin    = 150 * time.Millisecond
)

// Config says who the client is and where the bus is.
type Config struct {
	// Bus is how to join; Role is filled in here, and Name where it is empty.
	Bus bus.ConnConfig
	// Client names the client whose inbox this is. Empty means the name that the
	// MCP client has, and Dir.
	Client string
	// Dir is the working directory of the client.
	Dir string
	// Protocol says which versions of MCP are spoken. Empty means Compatible.
	Protocol Protocol
	// Kubernetes says what of Kubernetes is shown. The zero value is all.
	Kubernetes KubernetesConfig
	// quota is what all clients share that are served together. Where it is nil this
	// one has one of its own.
	quota *kubernetes.Quota
	// Notices carries what the agent tells its user beyond log and bus. It may be
	// nil; whoever made it runs it.
	Notices *notify.Dispatcher
	// Stdin and Stdout are where Run serves; Serve has no need of them.
	Stdin   io.Reader
	Stdout  io.Writer
	Version string
	Logger  *slog.Logger
	// Extend may add to each MCP server before it serves. It may be nil.
	Extend func(*mcp.Server)
}

// ConnName is how gateways name their connections: the bus counts them by it.
const ConnName = "tocsin gateway"

// gateway serves one client.
type gateway struct {
	cfg Config
	// life ends with the gateway: calls are bounded by it, because their own
	// contexts already end with stdin, while there is still an answer to give.
	life  context.Context
	stop  context.CancelFunc
	parts errgroup.Group

	session *session
	link    *link
	saver   *saver
	updates *resources.Updates
	// toolset is whether the tools for Kubernetes are listed, quota how many
	// subscriptions there may be, and floor the least rank that the client's level
	// lets through.
	toolset *toolset
	quota   *kubernetes.Quota
	floor   atomic.Int32
	// draining is full while a call takes the pending alerts.
	draining chan struct{}
	// out is where what nobody asked for goes.
	out  outlet
	mask *redact.Engine
	log  *slog.Logger

	// begun is when the parts were started.
	begun time.Time
	// closing is closed when the client or the context has ended: what is held
	// is let go, and what is under way is answered.
	closing chan struct{}
	close   func()

	initialized sync.Once
	greeting    *mcp.InitializeResult
	// protocol is the version that was agreed on last.
	protocol atomic.Pointer[string]
	// about is what the client said of itself last.
	about atomic.Pointer[peer]
	// inbox is the key of the inbox of a client without a name of its own, by the
	// name that it has in MCP.
	inbox func(client string) string
	// reply finds where the answer to a call goes, by the header of its HTTP
	// request. It is nil where all goes to out.
	reply func(http.Header) *reply
	// starts is called when a session begins, and says whether it may. It is nil
	// where the parts were started before.
	starts func(*mcp.ServerSession) bool
}

// newGateway makes what one client needs, and starts none of it yet. ctx gives
// values alone: the gateway ends by its own end.
func newGateway(ctx context.Context, cfg Config, out outlet) *gateway {
	log := cfg.Logger.With("component", "gateway")
	cfg.Bus.Name, cfg.Bus.Role, cfg.Bus.Logger = cmp.Or(cfg.Bus.Name, ConnName), bus.RoleGateway, cfg.Logger
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	closing := make(chan struct{})
	g := &gateway{
		cfg: cfg, life: life, stop: stop, out: out, mask: redact.New(), log: log, begun: time.Now(),
		toolset: newToolset(), quota: cfg.quota, draining: make(chan struct{}, 1), closing: closing, close: sync.OnceFunc(func() { close(closing) }),
		inbox: func(client string) string { return inbox.Key(client, cfg.Dir) },
	}
	if g.quota == nil {
		g.quota = cfg.Kubernetes.quota()
	}
	g.session = newSession(log)
	g.link = newLink(cfg.Bus, func(a arrival) {
		select {
		case g.session.arrivals <- a:
		case <-life.Done():
		}
	}, g.mask, log)
	g.link.shows = g.shows
	g.link.silences = newSilencer(g.session, log)
	g.saver = newSaver(g.link, log)
	g.updates = resources.New(resources.Config{Closing: closing, Settle: g.settle, Look: g.story, Logger: log})
	g.session.changed = g.updates.Note
	if cfg.Client != "" {
		g.link.identify(inbox.NamedKey(cfg.Client))
	}
	return g
}

// begin starts the parts.
func (g *gateway) begin() {
	g.begun = time.Now()
	g.parts.Go(func() error { return g.session.run(g.life) })
	g.parts.Go(func() error { return g.link.run(g.life) })
	g.parts.Go(func() error { return g.saver.run(g.life) })
	g.parts.Go(func() error { return g.updates.Run(g.life) })
	if g.out != nil {
		g.parts.Go(func() error { return writeNotifications(g.life, g.out, g.session.out, g.log) })
	}
}

// end lets go what is held, and stops the parts.
func (g *gateway) end() error {
	g.close()
	g.stop()
	return g.parts.Wait()
}

// within waits for f, but not for ever: a client that stopped reading can hold
// up a write to it, and the end of the process ends that too.
func within(limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return nil
	}
}

// server makes the MCP server of this client.
func (g *gateway) server(opts mcp.ServerOptions) *mcp.Server {
	opts.Instructions, opts.Logger = instructions, slog.New(slog.DiscardHandler)
	opts.SupportedProtocolVersions = g.cfg.Protocol.versions()
	opts.Capabilities = &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}, Tools: &mcp.ToolCapabilities{ListChanged: true}}
	mcpevents.Declare(opts.Capabilities)
	g.offerResources(&opts)
	s := mcp.NewServer(&mcp.Implementation{Name: name, Title: "Tocsin", Version: g.cfg.Version}, &opts)
	g.register(s)
	g.addEvents(s)
	s.AddReceivingMiddleware(g.watch, g.route, g.offer)
	g.registerResources(s)
	if g.cfg.Extend != nil {
		g.cfg.Extend(s)
	}
	return s
}

// settle waits, soon after the start, until the alerts of the past are here.
// Later it returns at once: a bus that is away is told instead.
func (g *gateway) settle(call context.Context) {
	timer := time.NewTimer(time.Until(g.begun.Add(patience)))
	defer timer.Stop()
	select {
	case <-g.link.caughtUp:
	case <-timer.C:
	case <-call.Done():
	}
}

// underway is the context of a call: it ends when the client cancels the call,
// or with the gateway. The end of stdin alone does not end it, because whoever
// wrote requests into a pipe and closed it still reads the answers.
func (g *gateway) underway(call context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(g.life)
	stop := context.AfterFunc(call, func() {
		select {
		case <-g.closing:
		default:
			cancel()
		}
	})
	return ctx, func() { stop(); cancel() }
}
