package ingest

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// AddrFlag says where the intake listens.
type AddrFlag struct {
	IngestAddr string `help:"Where the HTTP intake listens; port 0 picks a free one. Default: ${default}." default:"127.0.0.1:7400" env:"TOCSIN_INGEST_ADDR" placeholder:"ADDR"`
}

// Flags are the settings of the intake, alone or within tocsin up.
type Flags struct {
	AddrFlag
	OTLPAddr       string   `name:"otlp-addr" help:"Where OpenTelemetry's senders look by default, beside the intake; empty, also in the environment, turns it off. Default: ${default}." default:"127.0.0.1:4318" env:"TOCSIN_OTLP_ADDR" empty:"off" placeholder:"ADDR"`
	Token          string   `help:"When set, every HTTP write needs it as Authorization: Bearer, and beyond loopback every read. Required to listen on anything but loopback." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	AllowedHosts   []string `name:"allowed-host" help:"Host that requests may name beside loopback; may be repeated." env:"TOCSIN_ALLOWED_HOSTS" placeholder:"HOST"`
	AllowedOrigins []string `name:"allowed-origin" help:"Origin whose pages may send, beside loopback, such as https://app.example, https://*.example.com, or * for all; may be repeated." env:"TOCSIN_ALLOWED_ORIGINS" placeholder:"ORIGIN"`

	service.ProxyFlags

	Instance string `help:"Name of this intake on a bus with several, for what it tells of itself. Default: with an external bus the name of this machine, else none." env:"TOCSIN_INSTANCE" placeholder:"NAME"`

	GitHubWebhookSecret string `name:"github-webhook-secret" help:"Secret of GitHub's webhooks; signed ones need no token." env:"TOCSIN_GITHUB_WEBHOOK_SECRET" placeholder:"SECRET"`
	GitLabSecretToken   string `name:"gitlab-secret-token" help:"Secret token of GitLab's webhooks, as they send it in X-Gitlab-Token." env:"TOCSIN_GITLAB_SECRET_TOKEN" placeholder:"TOKEN"`
	GitLabSigningToken  string `name:"gitlab-signing-token" help:"Signing token of GitLab's webhooks (whsec_...), for those that are signed." env:"TOCSIN_GITLAB_SIGNING_TOKEN" placeholder:"TOKEN"`
}

// Config is what the flags say; Bus, Logger, Ready and Accepted are left out.
// external says that others may be on the same bus.
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

// Command runs the intake alone.
type Command struct {
	service.BusFlags
	service.LayoutFlags
	Flags
}

// Validate refuses what the embedded bus can't have.
func (c *Command) Validate() error { return c.CheckBus(c.BusFlags) }

// Run serves until ctx ends.
func (c *Command) Run(ctx context.Context, env service.Env) error {
	env.LogSettingsFile()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg := c.Config(c.External(), registry)
	cfg.Bus, cfg.Provision, cfg.Layout, cfg.Logger = env.Bus(c.BusFlags), c.External(), c.Layout(), env.Logger
	cfg.Version = env.Version.Version
	cfg.Ready = func(at Listening) {
		text := "intake  " + at.Intake + "\n"
		if at.OTLP != "" {
			text += "otlp    " + at.OTLP + "\n"
		}
		_, _ = fmt.Fprint(env.Stdout, text) // a closed stdout is no reason to end
	}
	return Run(ctx, cfg)
}

// Healthcheck asks the intake that runs here how it is.
type Healthcheck struct {
	AddrFlag
	service.Probe
}

// Run prints one line, or fails with the reason.
func (c *Healthcheck) Run(ctx context.Context, env service.Env) error {
	return c.Check(ctx, env, "the intake", c.IngestAddr)
}
