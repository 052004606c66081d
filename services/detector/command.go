package detector

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/detector/rules"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// HealthFlag says where the detector can be asked how it is.
type HealthFlag struct {
	HealthAddr string `help:"Where /healthz, /readyz and /metrics are served; empty turns them off." env:"TOCSIN_DETECTOR_HEALTH_ADDR" placeholder:"ADDR"`
}

// RuleFlags say by which rules apps are judged. Each value is a rule for all apps,
// or APP=RULE for one.
type RuleFlags struct {
	All        []string `name:"rules" help:"All three detection rules below: auto, spec (the specification's) or statistical. APP=RULE for one app; may be repeated. Default: auto, the specification's for the first 10 min of an app, then the statistical ones." env:"TOCSIN_RULES" placeholder:"RULE"`
	Anomaly    []string `help:"Error-spike detection rule: auto, ratio3x or rate-tail. Wins over --rules. APP=RULE for one app; may be repeated. Default: auto, ratio3x for the first 10 min of an app, then rate-tail." env:"TOCSIN_ANOMALY" placeholder:"RULE"`
	Regression []string `help:"Detection rule for slower pages: auto, spec, or confirmed by the loads that follow. Wins over --rules. APP=RULE for one app; may be repeated. Default: auto, spec for the first 5 loads of a page within the first 10 min of an app, then confirmed." env:"TOCSIN_REGRESSION" placeholder:"RULE"`
	Noise      []string `help:"Detection rule for repeated messages: auto, spec, or mined, which also finds the words that vary. Wins over --rules. APP=RULE for one app; may be repeated. Default: auto, which is mined." env:"TOCSIN_NOISE" placeholder:"RULE"`
}

func (f RuleFlags) words() rules.Words {
	return rules.Words{Rules: f.All, Anomaly: f.Anomaly, Regression: f.Regression, Noise: f.Noise}
}

// Rules reads the flags. Its errors name the flag and what is allowed.
func (f RuleFlags) Rules() (rules.Table, error) {
	return f.words().Table()
}

// Warn logs the values that are of an earlier release, and what they are taken as.
func (f RuleFlags) Warn(log *slog.Logger) {
	for _, line := range f.words().Warnings() {
		log.Warn(line)
	}
}

// Command runs the detector alone.
type Command struct {
	service.BusFlags
	service.LayoutFlags
	RuleFlags
	HealthFlag
	Token        string   `help:"Has to be set to serve them on anything but loopback." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	AllowedHosts []string `name:"allowed-host" help:"Host that requests for them may name beside loopback; may be repeated." env:"TOCSIN_ALLOWED_HOSTS" placeholder:"HOST"`
}

// Validate refuses what the embedded bus can't have, and rules that there are not.
func (c *Command) Validate() error {
	if _, err := c.Rules(); err != nil {
		return err
	}
	return c.CheckBus(c.BusFlags)
}

// Run detects until ctx ends.
func (c *Command) Run(ctx context.Context, env service.Env) error {
	env.LogSettingsFile()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	state := &State{}
	health := service.Health{
		Addr: c.HealthAddr, Setting: "TOCSIN_DETECTOR_HEALTH_ADDR", Token: c.Token, Hosts: c.AllowedHosts,
		Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		Ready: func() error {
			if h := state.Health(); !h.OK {
				return errors.New(h.Reason)
			}
			return nil
		},
	}
	if c.HealthAddr != "" {
		if err := health.Check(ctx); err != nil {
			return err
		}
	}
	judged, err := c.Rules()
	if err != nil {
		return err // not reached: Validate has read them
	}
	c.Warn(env.Logger)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return Run(ctx, Config{
			Bus: env.Bus(c.BusFlags), Provision: c.External(), Layout: c.Layout(), Shared: c.External(),
			Rules: judged, Registry: registry, Logger: env.Logger, State: state, Version: env.Version.Version,
		})
	})
	if c.HealthAddr != "" {
		group.Go(func() error { return health.Serve(ctx) })
	}
	return group.Wait()
}

// Healthcheck asks the detector that runs here how it is.
type Healthcheck struct {
	HealthFlag
	service.Probe
}

// Run prints one line, or fails with the reason.
func (c *Healthcheck) Run(ctx context.Context, env service.Env) error {
	if c.HealthAddr == "" {
		return service.Usagef("the detector says nowhere how it is: name an address by --health-addr or TOCSIN_DETECTOR_HEALTH_ADDR, for it and for this")
	}
	return c.Check(ctx, env, "the detector", c.HealthAddr)
}
