// Package dashboard serves the web page, live alerts as server-sent events to any number of
// readers, and an HTTP API for people: history, health, noise rules, silences.
//
// It decides who may read and write, and that each alert reaches a reader once. It does not
// decide what is an alert, and what a silence suppresses.
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

// DefaultAddr is where the dashboard listens by default.
const DefaultAddr = "127.0.0.1:7480"

// setting is the environment variable of the address.
const setting = "TOCSIN_DASHBOARD_ADDR"

// maxConns is the maximum number of open connections; more wait in the kernel's queue.
const maxConns = 1024

// Config configures the listener, who may use it, and the bus.
type Config struct {
	// Bus is how to connect as [bus.RoleDashboard], for alerts. Run sets Name and Role.
	Bus bus.Config
	// Actions is how to connect as [bus.RoleGateway], for the requests of people. If it is
	// nil, the page shows alerts only, and NoActions is the reason that people see.
	Actions   *bus.Config
	NoActions string
	// Browser is how a browser connects to the bus itself.
	Browser Browser
	// Addr is host:port to listen on; port 0 picks a free port. Anything but loopback
	// needs a Token. Empty means DefaultAddr, or a free port if that is taken, so that a
	// second bus can start on this machine.
	Addr string
	// Token, when set, is required for every write, and beyond loopback for every read:
	// as Authorization: Bearer, or as the cookie of a sign-in.
	Token string
	// Proxy is a trusted proxy in front, whose users need no Token.
	Proxy httpguard.Proxy
	// ProxySecret is what a trusted proxy on this machine sends in [httpguard.ProofHeader]. Without
	// it, the users of such a proxy are not named to the investigator.
	ProxySecret string
	// Investigator is the investigator whose API is served under /api/v1/.
	Investigator Investigator
	// AllowedHosts are accepted as Host beside loopback and a host in Addr, see
	// [httpguard.Policy]. Pages of other origins are refused.
	AllowedHosts []string
	// Version is shown by the page.
	Version string
	// Registry gets the metrics, and /metrics serves it. It may be nil.
	Registry *prometheus.Registry
	Logger   *slog.Logger
	// Ready is called once with the URL, when requests are accepted. It may be nil.
	Ready func(url string)

	// backlog bounds the alerts that are kept for readers.
	backlog fanout.Bounds
	// exposed reports whether other machines can reach the listener.
	exposed bool
}

// Run serves until ctx ends. Then it sends readers the alerts that are stored by then, ends
// their streams, lets other requests finish, closes its connections and returns nil. It
// waits for a bus that is unreachable.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	l, err := cfg.listen(ctx)
	if err != nil {
		return err
	}
	cfg.exposed = httpguard.Exposed(l.Addr())
	g, ctx := errgroup.WithContext(ctx)
	// The rest stops only after the feed has published the last alerts.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	h, err := newHandler(serving, cfg)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer h.forwarder.transport.CloseIdleConnections()
	g.Go(func() error { defer stop(); return h.feed.run(ctx, serving) })
	g.Go(func() error { h.hub.Run(serving); return nil })
	g.Go(func() error { return h.actions.run(serving) })
	g.Go(func() error {
		return httpserve.Serve(serving, l, httpserve.NewServer(h, cfg.Logger), cfg.Logger)
	})
	url := "http://" + httpguard.DialAddress(l.Addr())
	cfg.Logger.Info("the dashboard listens", "url", url)
	if cfg.Ready != nil {
		cfg.Ready(url)
	}
	return g.Wait()
}

// complete sets the defaults.
func (c Config) complete() (Config, error) {
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Actions == nil && c.NoActions == "" {
		return c, errors.New("start the dashboard: Actions is nil and NoActions has no reason")
	}
	c.Logger = c.Logger.With("component", "dashboard")
	c.Bus.Name, c.Bus.Role, c.Bus.Logger = "tocsin dashboard", bus.RoleDashboard, c.Logger
	if c.Actions != nil {
		actions := *c.Actions
		actions.Name, actions.Role, actions.Logger = "tocsin dashboard desk", bus.RoleGateway, c.Logger
		c.Actions = &actions
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
		c.Logger.Warn("the default port of the dashboard is taken, so it listens at another: "+setting+" sets one", "taken", DefaultAddr)
		return listenOn(ctx, anyPort, c.Token)
	}
	return l, err
}

// anyPort is a free port on loopback.
const anyPort = "127.0.0.1:0"

func listenOn(ctx context.Context, addr, token string) (net.Listener, error) {
	return listenerAt(addr, token).Listen(ctx)
}

func listenerAt(addr, token string) httpserve.Listener {
	return httpserve.Listener{Purpose: "the dashboard", Setting: setting, Addr: addr, Token: token, MaxConns: maxConns}
}

// CheckListen returns a usage error if the dashboard may not listen on addr, which is
// DefaultAddr if empty.
func CheckListen(ctx context.Context, addr, token string) error {
	if addr == "" {
		addr = DefaultAddr
	}
	return listenerAt(addr, token).Check(ctx)
}
