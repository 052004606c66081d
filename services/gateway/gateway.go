// Package gateway puts alerts in front of a coding agent: an MCP server on
// stdin and stdout.
//
// Alerts wait in an inbox (package inbox) until the agent's next observe, and
// are pushed as notifications (package stream) once it asked for that. One loop
// owns both (session); around it stand the way to the bus (link), the client's
// place in the stream of alerts (saver) and the tools.
//
// The gateway is never ended by a bus that is away: it says so, and finds the
// bus again.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

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
	// Bus is how to join; Name and Role are filled in here.
	Bus bus.ConnConfig
	// Client names the client whose inbox this is. Empty means the name that the
	// MCP client has, and Dir.
	Client string
	// Dir is the working directory of the client.
	Dir     string
	Stdin   io.Reader
	Stdout  io.Writer
	Version string
	Logger  *slog.Logger
}

// ConnName is how gateways name their connections: the bus counts them by it.
const ConnName = "tocsin gateway"

// Run serves until stdin or ctx ends, and returns nil within a second then.
func Run(ctx context.Context, cfg Config) error {
	log := cfg.Logger.With("component", "gateway")
	cfg.Bus.Name, cfg.Bus.Role, cfg.Bus.Logger = ConnName, bus.RoleGateway, cfg.Logger
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()

	lines := make(chan string)
	closing := make(chan struct{})
	g := &gateway{
		cfg: cfg, life: life, mask: redact.New(), log: log, begun: time.Now(),
		closing: closing, close: sync.OnceFunc(func() { close(closing) }),
	}
	g.session = newSession(lines, log)
	g.link = newLink(cfg.Bus, func(a arrival) {
		select {
		case g.session.arrivals <- a:
		case <-life.Done():
		}
	}, g.mask, log)
	g.saver = newSaver(g.link, log)
	if cfg.Client != "" {
		g.link.identify(named(cfg.Client))
	}
	g.stdout = &lineWriter{w: cfg.Stdout}
	var parts errgroup.Group
	parts.Go(func() error { return g.session.run(life) })
	parts.Go(func() error { return g.link.run(life) })
	parts.Go(func() error { return g.saver.run(life) })
	parts.Go(func() error { return notify(life, g.stdout, lines) })
	err := g.serve(ctx, end)
	return errors.Join(err, within(endWithin, parts.Wait))
}

// named is the key of a client that was given a name.
func named(client string) string { return "client " + client }

// within waits for f, but not for ever: a client that stopped reading can hold
// up a write to stdout, and the end of the process ends that too.
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

type gateway struct {
	cfg Config
	// life ends with the gateway: calls are bounded by it, because their own
	// contexts already end with stdin, while there is still an answer to give.
	life    context.Context
	session *session
	link    *link
	saver   *saver
	stdout  *lineWriter
	mask    *redact.Engine
	log     *slog.Logger
	begun   time.Time

	// closing is closed when stdin or the context has ended: what is held is let
	// go, and what is under way is answered.
	closing chan struct{}
	close   func()

	initialized sync.Once
	greeting    *mcp.InitializeResult
	// protocol is the version that was agreed on last.
	protocol atomic.Pointer[string]
}

// serve speaks MCP until stdin or ctx ends. Then it gives the calls under way
// some time, calls end, and waits no longer than endWithin for the SDK.
func (g *gateway) serve(ctx context.Context, end func()) error {
	defer end()
	s := mcp.NewServer(&mcp.Implementation{Name: name, Title: "Tocsin", Version: g.cfg.Version}, &mcp.ServerOptions{
		Instructions: instructions, Logger: slog.New(slog.DiscardHandler),
		// 2026-07-28 forbids messages that nobody asked for: not for us yet.
		SupportedProtocolVersions: protocolVersions(),
		Capabilities:              &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}, Tools: &mcp.ToolCapabilities{}},
	})
	g.register(s)
	s.AddReceivingMiddleware(g.watch)
	under := newCalls()
	session, err := s.Connect(context.WithoutCancel(ctx), &transport{
		in: closer(g.cfg.Stdin), out: g.stdout, batches: g.batches, ending: g.close, calls: under,
	}, nil)
	if err != nil {
		return fmt.Errorf("serve MCP: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- session.Wait() }()
	select {
	case err := <-done:
		return unlessClosed(err)
	case <-g.closing: // the connection itself waits for the answers
		select {
		case err := <-done:
			return unlessClosed(err)
		case <-time.After(answerWithin + endWithin):
		}
	case <-ctx.Done():
		g.close()
		under.finish(answerWithin)
	}
	end()
	return within(endWithin, func() error {
		_ = session.Close() // Wait has the reason
		return unlessClosed(<-done)
	})
}

// unlessClosed is err, unless it only says that the client has gone.
func unlessClosed(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve MCP: %w", err)
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
