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

// AddrFlag is the address of the dashboard.
type AddrFlag struct {
	DashboardAddr string `help:"Address of the dashboard and /events/stream; port 0 picks a free port. Default: 127.0.0.1:7480, or a free port if that is taken." env:"TOCSIN_DASHBOARD_ADDR" placeholder:"ADDR"`
}

// Flags are the settings of the dashboard, alone or in tocsin up. [ListenFlags] has those
// that all listeners share.
type Flags struct {
	// DashboardAddr has no default here: see Config.Addr.
	AddrFlag
	DeskCreds       string `help:"With an external NATS: credentials of the role gateway, for the actions of people on the dashboard. Without, it shows alerts only." env:"TOCSIN_DESK_CREDS" placeholder:"FILE"`
	InvestigatorURL string `name:"investigator-url" help:"URL of the investigator, whose API the dashboard serves under /api/v1/. Default: the one that runs on the state directory." env:"TOCSIN_INVESTIGATOR_URL" placeholder:"URL"`
	BusWSURL        string `name:"bus-ws-url" help:"With an external NATS: URL of its websocket for browsers, such as wss://nats.example:443. Without, pages use /events/stream." env:"TOCSIN_BUS_WS_URL" placeholder:"URL"`
}

// Validate checks the URLs of the websocket and of the investigator.
func (f Flags) Validate() error {
	if f.InvestigatorURL != "" {
		if _, err := service.BaseURL(f.InvestigatorURL); err != nil {
			return fmt.Errorf("--investigator-url %w", err)
		}
	}
	if f.BusWSURL == "" {
		return nil
	}
	u, err := url.Parse(f.BusWSURL)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" || u.User != nil || !plainHost(u.Host) {
		return errors.New("--bus-ws-url must be a URL such as wss://nats.example:443, without a user") // not shown, because it may contain a password
	}
	return nil
}

// ListenFlags are the flags that every listener has, for a dashboard alone.
type ListenFlags struct {
	Token        string   `help:"Bearer token that every HTTP write needs, and beyond loopback every read; people sign in with it on the page. Required to listen on anything but loopback." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	AllowedHosts []string `name:"allowed-host" help:"Host header that is allowed beside loopback, such as that of a proxy in front; may be repeated." env:"TOCSIN_ALLOWED_HOSTS" placeholder:"HOST"`
	service.ProxyFlags
	ProxySecret string `help:"Secret in X-Tocsin-Proxy: a trusted proxy on this machine sends it, and the dashboard sends it to the investigator with the name of the proxy's user." env:"TOCSIN_PROXY_SECRET" placeholder:"SECRET"`
}

// Command runs the dashboard alone.
type Command struct {
	service.BusFlags
	Flags
	ListenFlags
}

// Config returns the configuration without Registry and Ready.
func (f Flags) Config(env service.Env, joins service.BusFlags, listen ListenFlags) Config {
	cfg := Config{
		Bus: env.Bus(joins), Addr: f.DashboardAddr, Token: listen.Token, AllowedHosts: listen.AllowedHosts, Proxy: listen.Proxy(),
		Version: env.Version.Version, Logger: env.Logger, ProxySecret: listen.ProxySecret,
		Investigator: Investigator{URL: func() string { return f.InvestigatorURL }, Secret: listen.ProxySecret},
	}
	actions := cfg.Bus
	cfg.Actions = &actions
	if !joins.External() {
		dir := statedir.At(env.StateDir)
		cfg.Browser = Browser{URL: announcedURL(dir), Key: KeyIn(dir)}
		if f.InvestigatorURL == "" {
			cfg.Investigator.URL = announcedInvestigator(dir)
		}
		return cfg
	}
	cfg.Browser = Browser{URL: func() string { return f.BusWSURL }, Key: fileKey(joins.NATSCreds), Check: true}
	actions.Creds = f.DeskCreds
	if f.DeskCreds == "" && joins.NATSCreds != "" {
		cfg.Actions, cfg.NoActions = nil, "alerts only: set TOCSIN_DESK_CREDS to the credentials of the role gateway, and restart the dashboard"
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
		_, _ = fmt.Fprintf(env.Stdout, "dashboard  %s\n", url) // a closed stdout is no reason to stop
	}
	return Run(ctx, cfg)
}

// Healthcheck checks the dashboard that runs here.
type Healthcheck struct {
	AddrFlag
	service.Probe
}

// Run prints one line, or returns the reason why the dashboard is not ready.
func (c *Healthcheck) Run(ctx context.Context, env service.Env) error {
	return c.Check(ctx, env, "the dashboard", cmp.Or(c.DashboardAddr, DefaultAddr))
}
