package detector

import (
	"context"
	"errors"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// HealthFlag is the address of the detector's health listener.
type HealthFlag struct {
	HealthAddr string `help:"Address that serves /healthz, /readyz and /metrics; empty turns them off." env:"TOCSIN_DETECTOR_HEALTH_ADDR" placeholder:"ADDR"`
}

// RuleFlags select the detection rules. Each value is a rule for all apps, or APP=RULE
// for one.
type RuleFlags struct {
	All        []string `name:"rules" help:"Detection rules of all kinds: auto, spec (the specification's) or statistical. APP=RULE for one app; may be repeated. Default: auto (spec for the first 10 min of an app, then statistical)." env:"TOCSIN_RULES" placeholder:"RULE"`
	Anomaly    []string `help:"Error-spike detection rule: auto, ratio3x or rate-tail. Overrides --rules. APP=RULE for one app; may be repeated. Default: auto (ratio3x for the first 10 min of an app, then rate-tail)." env:"TOCSIN_ANOMALY" placeholder:"RULE"`
	Regression []string `help:"Page-regression detection rule: auto, spec or confirmed (by the loads that follow). Overrides --rules. APP=RULE for one app; may be repeated. Default: auto (spec for the first 5 loads of a page within the first 10 min of an app, then confirmed)." env:"TOCSIN_REGRESSION" placeholder:"RULE"`
	Noise      []string `help:"Noise detection rule: auto, spec or mined (which also finds the words that vary). Overrides --rules. APP=RULE for one app; may be repeated. Default: auto (mined)." env:"TOCSIN_NOISE" placeholder:"RULE"`
}

func (f RuleFlags) flags() ruleset.Flags {
	return ruleset.Flags{Rules: f.All, Anomaly: f.Anomaly, Regression: f.Regression, Noise: f.Noise}
}

// Rules parses the flags. Its errors name the flag and the allowed values.
func (f RuleFlags) Rules() (ruleset.Table, error) {
	return f.flags().Table()
}

// Warn logs each value that only an earlier release defined, with its replacement.
func (f RuleFlags) Warn(log *slog.Logger) {
	for _, line := range f.flags().Warnings() {
		log.Warn(line)
	}
}

// Command is the command that runs the detector alone.
type Command struct {
	service.BusFlags
	service.LayoutFlags
	RuleFlags
	HealthFlag
	Token        string   `help:"Token that the health listener requires; needed if it listens on anything but loopback." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	AllowedHosts []string `name:"allowed-host" help:"Host that requests to the health listener may name, in addition to loopback; may be repeated." env:"TOCSIN_ALLOWED_HOSTS" placeholder:"HOST"`
}

// Validate refuses unknown rules, and settings that the embedded bus does not support.
func (c *Command) Validate() error {
	if _, err := c.Rules(); err != nil {
		return err
	}
	return c.CheckBus(c.BusFlags)
}

// Run runs the detector until ctx ends.
func (c *Command) Run(ctx context.Context, env service.Env) error {
	env.LogSettingsFile()
	registry := httpserve.NewRegistry()
	state := &State{}
	health := httpserve.Health{
		Addr: c.HealthAddr, Setting: "TOCSIN_DETECTOR_HEALTH_ADDR", Token: c.Token, Hosts: c.AllowedHosts,
		Registry: registry, Logger: env.Logger,
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
	table, err := c.Rules()
	if err != nil {
		return err // not reached: Validate has parsed them
	}
	c.Warn(env.Logger)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return Run(ctx, Config{
			Bus: env.Bus(c.BusFlags), Provision: c.External(), Layout: c.Layout(), Shared: c.External(),
			Rules: table, Registry: registry, Logger: env.Logger, State: state, Version: env.Version.Version,
		})
	})
	if c.HealthAddr != "" {
		group.Go(func() error { return health.Serve(ctx) })
	}
	return group.Wait()
}

// Healthcheck is the command that queries the health of a local detector.
type Healthcheck struct {
	HealthFlag
	service.Probe
}

// Run prints one line if the detector is ready, and otherwise returns the reason.
func (c *Healthcheck) Run(ctx context.Context, env service.Env) error {
	if c.HealthAddr == "" {
		return service.Usagef("the detector has no health listener: set --health-addr or TOCSIN_DETECTOR_HEALTH_ADDR for the detector and for this command")
	}
	return c.Check(ctx, env, "the detector", c.HealthAddr)
}
