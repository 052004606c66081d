package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// AddrFlag says where the dashboard listens.
type AddrFlag struct {
	DashboardAddr string `help:"Where the dashboard and /events/stream listen; port 0 picks a free one. Default: 127.0.0.1:7480, or a free port where that is taken." env:"TOCSIN_DASHBOARD_ADDR" placeholder:"ADDR"`
}

// Flags are the settings of the dashboard, alone or within tocsin up. What it has
// in common with other listeners is not among them, see ListenFlags.
type Flags struct {
	// DashboardAddr has no default here: see Config.Addr.
	AddrFlag
	DeskCreds string `help:"With an external NATS: credentials of the role gateway, for what a person asks and does on the dashboard. Without, it shows alerts only." env:"TOCSIN_DESK_CREDS" placeholder:"FILE"`
	BusWSURL  string `name:"bus-ws-url" help:"With an external NATS: its websocket as browsers reach it, such as wss://nats.example:443. Without, pages use /events/stream." env:"TOCSIN_BUS_WS_URL" placeholder:"URL"`
}

// Validate says what is no address of a websocket.
func (f Flags) Validate() error {
	if f.BusWSURL == "" {
		return nil
	}
	u, err := url.Parse(f.BusWSURL)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" || u.User != nil || !plainHost(u.Host) {
		return errors.New("--bus-ws-url must be a URL such as wss://nats.example:443, without a user") // it may hold a password: not shown
	}
	return nil
}

// ListenFlags are those that every listener has, for a dashboard alone.
type ListenFlags struct {
	Token        string   `help:"When set, every HTTP write needs it as Authorization: Bearer, and beyond loopback every read; people sign in with it on the page. Required to listen on anything but loopback." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	AllowedHosts []string `name:"allowed-host" help:"Host that requests may name beside loopback, such as that of a proxy in front; may be repeated." env:"TOCSIN_ALLOWED_HOSTS" placeholder:"HOST"`
	service.ProxyFlags
}

// Command runs the dashboard alone.
type Command struct {
	service.BusFlags
	Flags
	ListenFlags
}

// Config is what the settings say; Registry and Ready are left out.
func (f Flags) Config(env service.Env, joins service.BusFlags, listen ListenFlags) Config {
	cfg := Config{
		Bus: env.Bus(joins), Addr: f.DashboardAddr, Token: listen.Token, AllowedHosts: listen.AllowedHosts, Proxy: listen.Proxy(),
		Version: env.Version.Version, Logger: env.Logger,
	}
	desk := cfg.Bus
	cfg.Desk = &desk
	if !joins.External() {
		dir := statedir.At(env.StateDir)
		cfg.Browser = Browser{URL: announcedURL(dir), Key: KeyIn(dir)}
		return cfg
	}
	cfg.Browser = Browser{URL: func() string { return f.BusWSURL }, Key: fileKey(joins.NATSCreds), Check: true}
	desk.Creds = f.DeskCreds
	if f.DeskCreds == "" && joins.NATSCreds != "" {
		cfg.Desk, cfg.NoDesk = nil, "alerts only: set TOCSIN_DESK_CREDS to the credentials of the role gateway, and start the dashboard again"
	}
	return cfg
}

// Run serves until ctx ends.
func (c *Command) Run(ctx context.Context, env service.Env) error {
	env.LogSettingsFile()
	registry := httpserve.NewRegistry()
	cfg := c.Config(env, c.BusFlags, c.ListenFlags)
	cfg.Registry = registry
	cfg.Ready = func(url string) {
		_, _ = fmt.Fprintf(env.Stdout, "dashboard  %s\n", url) // a closed stdout is no reason to end
	}
	return Run(ctx, cfg)
}

// Healthcheck asks the dashboard that runs here how it is.
type Healthcheck struct {
	AddrFlag
	service.Probe
}

// Run prints one line, or fails with the reason.
func (c *Healthcheck) Run(ctx context.Context, env service.Env) error {
	return c.Check(ctx, env, "the dashboard", cmp.Or(c.DashboardAddr, DefaultAddr))
}
