package ingest

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// AddrFlag is the address that ingest listens on.
type AddrFlag struct {
	IngestAddr string `help:"Address of ingest (HTTP); port 0 picks a free one. Default: ${default}." default:"127.0.0.1:7400" env:"TOCSIN_INGEST_ADDR" placeholder:"ADDR"`
}

// Flags are the settings of ingest, by itself or within tocsin up.
type Flags struct {
	AddrFlag
	OTLPAddr       string   `name:"otlp-addr" help:"Second address for OpenTelemetry's senders, at their default port; empty, also in the environment, turns it off. Default: ${default}." default:"127.0.0.1:4318" env:"TOCSIN_OTLP_ADDR" empty:"off" placeholder:"ADDR"`
	Token          string   `help:"Token that every HTTP write needs as Authorization: Bearer, and beyond loopback every read. Required to listen on anything but loopback." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	AllowedHosts   []string `name:"allowed-host" help:"Allowed Host of requests, in addition to loopback; may be repeated." env:"TOCSIN_ALLOWED_HOSTS" placeholder:"HOST"`
	AllowedOrigins []string `name:"allowed-origin" help:"Allowed Origin of pages that send, in addition to loopback, such as https://app.example, https://*.example.com, or * for all; may be repeated." env:"TOCSIN_ALLOWED_ORIGINS" placeholder:"ORIGIN"`

	service.ProxyFlags

	Instance string `help:"Name of this ingest service on a bus with several, in events about itself. Default: with an external bus the name of this machine, else none." env:"TOCSIN_INSTANCE" placeholder:"NAME"`

	GitHubWebhookSecret string `name:"github-webhook-secret" help:"Secret of GitHub's webhooks; signed webhooks need no token." env:"TOCSIN_GITHUB_WEBHOOK_SECRET" placeholder:"SECRET"`
	GitLabSecretToken   string `name:"gitlab-secret-token" help:"Secret token of GitLab's webhooks, as they send it in X-Gitlab-Token." env:"TOCSIN_GITLAB_SECRET_TOKEN" placeholder:"TOKEN"`
	GitLabSigningToken  string `name:"gitlab-signing-token" help:"Signing token of GitLab's webhooks (whsec_...), for those that are signed." env:"TOCSIN_GITLAB_SIGNING_TOKEN" placeholder:"TOKEN"`
}

// Config returns the configuration of the flags, without Bus, Logger, Ready and Accepted.
// external: other ingest services may use the same bus.
func (f Flags) Config(external bool, registry *prometheus.Registry) Config {
	instance := f.Instance
	if host, err := os.Hostname(); instance == "" && external && err == nil {
		instance = host
	}
	return Config{
		Instance: instance, Addr: f.IngestAddr, OTLPAddr: strings.TrimSpace(f.OTLPAddr), Token: f.Token, AllowedHosts: f.AllowedHosts, AllowedOrigins: f.AllowedOrigins, Proxy: f.Proxy(),
		GitHubWebhookSecret: f.GitHubWebhookSecret,
		GitLabSecretToken:   f.GitLabSecretToken,
		GitLabSigningToken:  f.GitLabSigningToken,
		Masker:              redact.New(), Registry: registry,
	}
}

// Command runs ingest by itself.
type Command struct {
	service.BusFlags
	service.LayoutFlags
	Flags
}

// Validate returns an error for what the embedded bus cannot have.
func (c *Command) Validate() error { return c.CheckBus(c.BusFlags) }

// Run serves until ctx ends.
func (c *Command) Run(ctx context.Context, env service.Env) error {
	env.LogSettingsFile()
	registry := httpserve.NewRegistry()
	cfg := c.Config(c.External(), registry)
	cfg.Bus, cfg.Provision, cfg.Layout, cfg.Logger = env.Bus(c.BusFlags), c.External(), c.Layout(), env.Logger
	cfg.Version = env.Version.Version
	cfg.Ready = func(at Listening) {
		text := "ingest  " + at.Ingest + "\n"
		if at.OTLP != "" {
			text += "otlp    " + at.OTLP + "\n"
		}
		_, _ = fmt.Fprint(env.Stdout, text) // stdout may be closed
	}
	return Run(ctx, cfg)
}

// Healthcheck checks the ingest service that runs on this machine.
type Healthcheck struct {
	AddrFlag
	service.Probe
}

// Run prints one line, or fails with the reason.
func (c *Healthcheck) Run(ctx context.Context, env service.Env) error {
	return c.Check(ctx, env, "ingest", c.IngestAddr)
}
