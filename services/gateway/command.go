// Package gateway has the command that serves alerts to coding agents over MCP, on stdin
// and stdout for one client or on HTTP for several, and its health check.
//
// The packages below do the work: mcpserver (the protocol and the tools), delivery (inbox,
// notifier and silences of one client), inbox, notifier, silences, history, kubernetes,
// hook (answers to the hooks of coding agents) and notify (an agent's messages to its user).
package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/services/gateway/notify"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// HTTPFlag is the address of the HTTP listener, or empty.
type HTTPFlag struct {
	HTTP string `name:"http" help:"Address of an HTTP listener for several clients, such as 127.0.0.1:7460. Default: one client on stdin and stdout." env:"TOCSIN_GATEWAY_HTTP" placeholder:"ADDR"`
}

// Command serves MCP on stdin and stdout, or on HTTP.
type Command struct {
	service.BusFlags
	Client string `help:"Name of the client whose inbox this is. Default: the MCP client's name and the working directory." env:"TOCSIN_CLIENT" placeholder:"NAME"`
	HTTPFlag
	Protocol mcpserver.Protocol `help:"MCP versions. compatible: up to 2025-11-25, which allow notification messages. latest: 2026-07-28 too, for clients that want it." enum:"compatible,latest" default:"compatible" env:"TOCSIN_PROTOCOL"`

	Token          string   `help:"With --http: token that every request needs as Authorization: Bearer. Required to listen on anything but loopback." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	AllowedHosts   []string `name:"allowed-host" help:"With --http: host that requests may name in addition to loopback. Repeatable." env:"TOCSIN_ALLOWED_HOSTS" placeholder:"HOST"`
	AllowedOrigins []string `name:"allowed-origin" help:"With --http: origin whose pages may be clients. Repeatable." env:"TOCSIN_ALLOWED_ORIGINS" placeholder:"ORIGIN"`

	service.ProxyFlags

	Kubernetes kubernetes.Flags `embed:""`
	Notify     notify.Settings  `embed:""`
}

// Validate refuses flags that contradict each other.
func (c *Command) Validate() error {
	if c.HTTP != "" && c.Client != "" {
		return errors.New("--client (TOCSIN_CLIENT) names one client: with --http (TOCSIN_GATEWAY_HTTP) each names itself, by ?client=NAME in the URL or the header " + mcpserver.HeaderClient)
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
	return withNotices(ctx, notices, func() error { return c.serve(ctx, env, notices) })
}

// withNotices delivers notices while f runs. Those sent by then are still delivered.
func withNotices(ctx context.Context, notices *notify.Dispatcher, f func() error) error {
	abort, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		notices.Run(abort)
	}()
	defer func() { cancel(); <-done }()
	return f()
}

func (c *Command) serve(ctx context.Context, env service.Env, notices *notify.Dispatcher) error {
	kube, err := c.Kubernetes.Config()
	if err != nil {
		return err
	}
	cfg := mcpserver.Config{
		Bus: env.Bus(c.BusFlags), Client: c.Client, Protocol: c.Protocol, Kubernetes: kube, Stdin: env.Stdin, Stdout: env.Stdout,
		Version: env.Version.Version, Logger: env.Logger, Notices: notices,
	}
	if c.HTTP != "" {
		return mcpserver.ServeHTTP(ctx, cfg, mcpserver.HTTPConfig{
			Addr: c.HTTP, Token: c.Token, AllowedHosts: c.AllowedHosts, AllowedOrigins: c.AllowedOrigins, Proxy: c.Proxy(),
			Ready: func(url string) { _, _ = fmt.Fprintf(env.Stdout, "gateway  %s\n", url) }, // a closed stdout does not end the server
		})
	}
	// A client that has closed our stdout is noticed by the failing write.
	signal.Ignore(syscall.SIGPIPE)
	if cfg.Dir, err = workingDir(); err != nil && c.Client == "" {
		return fmt.Errorf("find the working directory, which names the inbox when --client does not: %w", err)
	}
	return mcpserver.ServeStdio(ctx, cfg)
}

// workingDir returns the working directory without symbolic links, so that other readers
// of this client's inbox find the same.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// Healthcheck checks the gateway that serves on HTTP here.
type Healthcheck struct {
	HTTPFlag
	service.Probe
}

// Run prints one line, or fails with the reason.
func (c *Healthcheck) Run(ctx context.Context, env service.Env) error {
	if c.HTTP == "" {
		return service.Usagef("a gateway on stdin and stdout can't be checked: set --http or TOCSIN_GATEWAY_HTTP to the address of one on HTTP")
	}
	return c.Check(ctx, env, "the gateway", c.HTTP)
}
