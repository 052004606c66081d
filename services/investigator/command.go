package investigator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// AddrFlag is the address of the investigator.
type AddrFlag struct {
	InvestigatorAddr string `help:"Address of the investigator's HTTP API; port 0 picks a free port. Default: ${default}." default:"127.0.0.1:7490" env:"TOCSIN_INVESTIGATOR_ADDR" placeholder:"ADDR"`
}

// Flags are the settings of the investigator, alone or in tocsin up.
type Flags struct {
	Investigator string `help:"Configuration of the investigator (YAML): models, MCP servers, chains of agents. In tocsin up, no investigator runs without it." env:"TOCSIN_INVESTIGATOR" placeholder:"FILE"`
	AddrFlag
	ProxySecret string `help:"Secret that a trusted proxy on this machine sends to the investigator in X-Tocsin-Proxy; without it, no proxy on this machine is trusted." env:"TOCSIN_PROXY_SECRET" placeholder:"SECRET"`
}

// ListenFlags are the flags that every listener has, for an investigator alone.
type ListenFlags struct {
	Token        string   `help:"Bearer token that every HTTP write needs, and beyond loopback every read. Required to listen on anything but loopback." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	AllowedHosts []string `name:"allowed-host" help:"Host header that is allowed beside loopback, such as that of a proxy in front; may be repeated." env:"TOCSIN_ALLOWED_HOSTS" placeholder:"HOST"`
	service.ProxyFlags
}

// Command runs an investigator alone.
type Command struct {
	service.BusFlags
	service.LayoutFlags
	Flags
	ListenFlags
}

// Validate refuses settings that the embedded bus does not support.
func (c *Command) Validate() error { return c.CheckBus(c.BusFlags) }

// Check returns a usage error where the investigator may not listen, or nil.
func (f Flags) Check(ctx context.Context, token string) error {
	return listenerAt(f.InvestigatorAddr, token).Check(ctx)
}

// Config returns the configuration without Bus, Registry, Hangup and Ready.
func (f Flags) Config(env service.Env, listen ListenFlags) Config {
	return Config{
		File: f.Investigator, Addr: f.InvestigatorAddr, Token: listen.Token, AllowedHosts: listen.AllowedHosts,
		Proxies: Proxies{Networks: listen.TrustedProxies, Secret: f.ProxySecret, Header: listen.TrustedProxyHeader},
		Logger:  env.Logger, Version: env.Version.Version,
	}
}

// errNoFile is returned where no configuration is named.
var errNoFile = errors.New("the investigator has no configuration: set --investigator or TOCSIN_INVESTIGATOR to a YAML file")

// Run investigates until ctx ends.
func (c *Command) Run(ctx context.Context, env service.Env) error {
	env.LogSettingsFile()
	if c.Investigator == "" {
		return service.Usagef("%s", errNoFile)
	}
	cfg := c.Config(env, c.ListenFlags)
	cfg.Bus, cfg.Provision, cfg.Layout, cfg.Registry = env.Bus(c.BusFlags), c.External(), c.Layout(), httpserve.NewRegistry()
	hangup, stop := Hangup()
	defer stop()
	cfg.Hangup = hangup
	cfg.Ready = func(url string) {
		_, _ = fmt.Fprintf(env.Stdout, "investigator  %s\n", url) // a closed stdout is no reason to stop
	}
	return Run(ctx, cfg)
}

// Hangup returns the signals that have the configuration loaded again, until stop is called.
func Hangup() (hangup <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

func listenerAt(addr, token string) httpserve.Listener {
	return httpserve.Listener{Purpose: "the investigator", Setting: setting, Addr: cmp.Or(addr, DefaultAddr), Token: token, MaxConns: maxConns}
}

// Healthcheck checks the investigator that runs here.
type Healthcheck struct {
	AddrFlag
	service.Probe
}

// Run prints one line, or returns the reason why the investigator is not ready.
func (c *Healthcheck) Run(ctx context.Context, env service.Env) error {
	return c.Check(ctx, env, "the investigator", cmp.Or(c.InvestigatorAddr, DefaultAddr))
}
