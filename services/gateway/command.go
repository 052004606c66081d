package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/tocsin-bus/tocsin/services/gateway/notify"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// HTTPFlag says where several clients are served, if they are.
type HTTPFlag struct {
	HTTP string `name:"http" help:"Serve several clients on HTTP at this address, such as 127.0.0.1:7460, in place of one on stdin and stdout." env:"TOCSIN_GATEWAY_HTTP" placeholder:"ADDR"`
}

// Command serves MCP on stdin and stdout, or on HTTP.
type Command struct {
	service.BusFlags
	Client string `help:"Name of the client whose inbox this is. Default: the MCP client's name and the working directory." env:"TOCSIN_CLIENT" placeholder:"NAME"`
	HTTPFlag
	Protocol Protocol `help:"compatible: MCP up to 2025-11-25, whose clients take messages. latest: 2026-07-28 too, for clients that want it." enum:"compatible,latest" default:"compatible" env:"TOCSIN_PROTOCOL"`

	Token          string   `help:"With --http: every request needs it as Authorization: Bearer. Required to listen on anything but loopback." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	AllowedHosts   []string `name:"allowed-host" help:"With --http: host that requests may name beside loopback; may be repeated." env:"TOCSIN_ALLOWED_HOSTS" placeholder:"HOST"`
	AllowedOrigins []string `name:"allowed-origin" help:"With --http: origin whose pages may be clients; may be repeated." env:"TOCSIN_ALLOWED_ORIGINS" placeholder:"ORIGIN"`

	service.ProxyFlags

	Kubernetes KubernetesFlags `embed:""`
	Notify     notify.Settings `embed:""`
}

// Validate refuses what contradicts itself.
func (c *Command) Validate() error {
	if c.HTTP != "" && c.Client != "" {
		return errors.New("--client (TOCSIN_CLIENT) names one client: with --http (TOCSIN_GATEWAY_HTTP) each names itself, by ?client=NAME in the URL or the header " + headerClient)
	}
	if err := c.Kubernetes.Validate(); err != nil {
		return err
	}
	if err := c.Notify.Validate(); err != nil {
		return err
	}
	return c.BusFlags.Validate()
}

// Run serves until stdin or ctx ends; on HTTP until ctx ends.
func (c *Command) Run(ctx context.Context, env service.Env) error {
	env.LogSettingsFile()
	notices, err := notify.New(c.Notify, env.Logger.With("component", "notices"))
	if err != nil {
		return err
	}
	return delivering(ctx, notices, func() error { return c.serve(ctx, env, notices) })
}

// delivering delivers notices while f runs, and a moment longer.
func delivering(ctx context.Context, notices *notify.Dispatcher, f func() error) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		notices.Run(life)
	}()
	defer func() { end(); <-done }()
	return f()
}

func (c *Command) serve(ctx context.Context, env service.Env, notices *notify.Dispatcher) error {
	kubernetes, err := c.Kubernetes.config()
	if err != nil {
		return err
	}
	cfg := Config{
		Bus: env.Bus(c.BusFlags), Client: c.Client, Protocol: c.Protocol, Kubernetes: kubernetes, Stdin: env.Stdin, Stdout: env.Stdout,
		Version: env.Version.Version, Logger: env.Logger, Notices: notices,
	}
	if c.HTTP != "" {
		return Serve(ctx, cfg, HTTPConfig{
			Addr: c.HTTP, Token: c.Token, AllowedHosts: c.AllowedHosts, AllowedOrigins: c.AllowedOrigins, Proxy: c.Proxy(),
			Ready: func(url string) { _, _ = fmt.Fprintf(env.Stdout, "gateway  %s\n", url) }, // a closed stdout is no reason to end
		})
	}
	// A client that closed our stdout is told apart by the failing write.
	signal.Ignore(syscall.SIGPIPE)
	if cfg.Dir, err = workingDir(); err != nil && c.Client == "" {
		return fmt.Errorf("find the working directory, by which the client is known without --client: %w", err)
	}
	return Run(ctx, cfg)
}

// workingDir is the working directory without symbolic links, so that whoever
// else serves this client finds the same.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// Healthcheck asks the gateway that serves on HTTP here how it is.
type Healthcheck struct {
	HTTPFlag
	service.Probe
}

// Run prints one line, or fails with the reason.
func (c *Healthcheck) Run(ctx context.Context, env service.Env) error {
	if c.HTTP == "" {
		return service.Usagef("a gateway on stdin and stdout can't be asked: name the address of one on HTTP by --http or TOCSIN_GATEWAY_HTTP")
	}
	return c.Check(ctx, env, "the gateway", c.HTTP)
}
