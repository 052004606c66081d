package detector

import (
	"context"
	"errors"

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
	Anomaly    []string `help:"How an error spike is told from errors as usual: ratio3x, rate-tail, or both, which has rate-tail speak on shadow.alerts.> only. APP=RULE for one app; may be repeated. Default: ratio3x." env:"TOCSIN_ANOMALY" placeholder:"RULE"`
	Regression []string `help:"How a slower page is told from one that varies: spec, or confirmed, which has the loads that follow confirm or withdraw what one says. APP=RULE for one app; may be repeated. Default: spec." env:"TOCSIN_REGRESSION" placeholder:"RULE"`
	Noise      []string `help:"What counts as one message that is said over and over: spec, or mined, which also finds the words that vary. APP=RULE for one app; may be repeated. Default: spec." env:"TOCSIN_NOISE" placeholder:"RULE"`
}

// Rules reads the flags. Its errors name the flag and what is allowed.
func (f RuleFlags) Rules() (rules.Table, error) {
	return rules.Words{Anomaly: f.Anomaly, Regression: f.Regression, Noise: f.Noise}.Table()
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
