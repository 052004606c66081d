// Package dashboard is what people look at: it serves the web page, the alerts as
// they are raised to any number of readers (server-sent events), and over HTTP what
// a person asks and does: history, health, noise rules, silences.
//
// It decides who may read and write, and that no alert is missed and none told
// twice. What is an alert, and what a silence holds back, others decide.
package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/dashboard/fanout"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// DefaultAddr is where the dashboard listens when nothing else is said.
const DefaultAddr = "127.0.0.1:7480"

// setting is the name under which people know the address.
const setting = "TOCSIN_DASHBOARD_ADDR"

// maxConns is how many connections may be open; further ones wait in the kernel's queue.
const maxConns = 1024

// Config says where to listen, whom to let in, and which bus to read.
type Config struct {
	// Bus is how to join as bus.RoleDashboard, for alerts; Name and Role are filled
	// in here.
	Bus bus.ConnConfig
	// Desk is how to join as bus.RoleGateway, for what a person asks and does. Where
	// it is nil there are alerts only, and NoDesk says why, in words for people.
	Desk   *bus.ConnConfig
	NoDesk string
	// Browser is how a browser joins the bus by itself.
	Browser Browser
	// Addr is host:port to listen on; port 0 picks a free one. Anything but loopback
	// needs a Token. Empty means DefaultAddr, or a free port where that is taken: a
	// second bus on this machine must not fail for its page. The log says so.
	Addr string
	// Token, when set, must come with every write as Authorization: Bearer, and beyond
	// loopback with every read; or with a sign-in's cookie. One of white space is none.
	Token string
	// Proxy is one in front whose users need no Token.
	Proxy httpguard.Proxy
	// AllowedHosts may be named beside loopback; a concrete host in Addr is added by
	// itself. See httpguard.Policy. No page of another origin may do anything here.
	AllowedHosts []string
	// Version is that of the service, as the page shows it.
	Version string
	// Registry gets the metrics and is what /metrics shows. It may be nil.
	Registry *prometheus.Registry
	Logger   *slog.Logger
	// Ready is called once, with the URL, when requests are taken. It may be nil.
	Ready func(url string)

	// kept is how much is kept for readers.
	kept fanout.Bounds
	// beyond reports whether other machines can reach the listener.
	beyond bool
}

// Run serves until ctx ends. Then it tells its readers what was stored until then, ends
// their streams, lets other requests under way finish, closes its connections and
// returns nil. A bus that is away is waited for, and told to readers meanwhile.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	l, err := cfg.listen(ctx)
	if err != nil {
		return err
	}
	cfg.beyond = httpguard.Beyond(l.Addr())
	g, ctx := errgroup.WithContext(ctx)
	// The rest ends once the readers were told the last alerts.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	h, err := newHandler(life, cfg)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	g.Go(func() error { defer stop(); return h.feed.run(ctx, life) })
	g.Go(func() error { h.hub.Run(life); return nil })
	g.Go(func() error { return h.desk.run(life) })
	g.Go(func() error {
		return httpserve.Serve(life, l, httpserve.NewServer(h, cfg.Logger), cfg.Logger)
	})
	url := "http://" + httpguard.Reachable(l.Addr())
	cfg.Logger.Info("the dashboard listens", "url", url)
	if cfg.Ready != nil {
		cfg.Ready(url)
	}
	return g.Wait()
}

// complete fills in the defaults.
func (c Config) complete() (Config, error) {
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Desk == nil && c.NoDesk == "" {
		return c, errors.New("start the dashboard: without a desk, it must be said why")
	}
	c.Logger = c.Logger.With("component", "dashboard")
	c.Bus.Name, c.Bus.Role, c.Bus.Logger = "tocsin dashboard", bus.RoleDashboard, c.Logger
	if c.Desk != nil {
		desk := *c.Desk
		desk.Name, desk.Role, desk.Logger = "tocsin dashboard desk", bus.RoleGateway, c.Logger
		c.Desk = &desk
	}
	c.Token = strings.TrimSpace(c.Token)
	return c, nil
}

func (c Config) listen(ctx context.Context) (net.Listener, error) {
	if c.Addr != "" {
		return listenOn(ctx, c.Addr, c.Token)
	}
	l, err := listenOn(ctx, DefaultAddr, c.Token)
	if errors.Is(err, syscall.EADDRINUSE) {
		c.Logger.Warn("the usual port of the dashboard is taken, so it is at another: "+setting+" sets one", "taken", DefaultAddr)
		return listenOn(ctx, anyPort, c.Token)
	}
	return l, err
}

// anyPort is a free one, on loopback.
const anyPort = "127.0.0.1:0"

func listenOn(ctx context.Context, addr, token string) (net.Listener, error) {
	return listenerAt(addr, token).Listen(ctx)
}

func listenerAt(addr, token string) httpserve.Listener {
	return httpserve.Listener{Purpose: "the dashboard", Setting: setting, Addr: addr, Token: token, MaxConns: maxConns}
}

// CheckListen says why the dashboard may not listen on addr, or nil; an empty one is
// the default. Its error means that it was asked for wrongly.
func CheckListen(ctx context.Context, addr, token string) error {
	if addr == "" {
		addr = DefaultAddr
	}
	return listenerAt(addr, token).Check(ctx)
}
