package detector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/detector/rules"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
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
	if c.HealthAddr != "" {
		if err := httpguard.CheckListen(ctx, "TOCSIN_DETECTOR_HEALTH_ADDR", c.HealthAddr, c.Token); err != nil {
			return service.Usagef("%s", err)
		}
	}
	judged, err := c.Rules()
	if err != nil {
		return err // not reached: Validate has read them
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	state := &State{}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return Run(ctx, Config{
			Bus: env.Bus(c.BusFlags), Provision: c.External(), Layout: c.Layout(), Shared: c.External(),
			Rules: judged, Registry: registry, Logger: env.Logger, State: state, Version: env.Version.Version,
		})
	})
	if c.HealthAddr != "" {
		group.Go(func() error { return serveHealth(ctx, c.HealthAddr, c.AllowedHosts, registry, state) })
	}
	return group.Wait()
}

// serveHealth serves what an orchestrator asks for.
func serveHealth(ctx context.Context, addr string, hosts []string, registry *prometheus.Registry, state *State) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answerHealth(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if h := state.Health(); !h.OK {
			answerHealth(w, errors.New(h.Reason))
			return
		}
		answerHealth(w, nil)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	policy := httpguard.Policy{AllowedHosts: hosts}.ListeningOn(addr)
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w: free the port or set TOCSIN_DETECTOR_HEALTH_ADDR", err)
	}
	return service.ServeHTTP(ctx, l, &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := errors.Join(policy.CheckHost(r), policy.CheckSameSite(r)); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			mux.ServeHTTP(w, r)
		}),
	})
}

func answerHealth(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(w, `{"ok":false,"error":%q}`, err.Error())
		return
	}
	_, _ = fmt.Fprint(w, `{"ok":true}`)
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
