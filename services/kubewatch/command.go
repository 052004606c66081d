package kubewatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/tocsin-bus/tocsin/services/kubewatch/clusters"
	"github.com/tocsin-bus/tocsin/services/kubewatch/logs"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/service"
)

const healthSetting = "TOCSIN_KUBEWATCH_HEALTH_ADDR"

// HealthFlag says where the kubewatch can be asked how it is.
type HealthFlag struct {
	HealthAddr string `help:"Where /healthz, /readyz and /metrics are served; empty turns them off." env:"TOCSIN_KUBEWATCH_HEALTH_ADDR" placeholder:"ADDR"`
}

// ClusterFlags say which clusters are watched.
type ClusterFlags struct {
	Kubeconfig  string   `help:"Kubeconfig, or several as KUBECONFIG has them. Default: ~/.kube/config, and without one the cluster that this runs in." env:"TOCSIN_KUBE_KUBECONFIG,KUBECONFIG" placeholder:"FILE"`
	Contexts    []string `name:"context" help:"Context of the kubeconfig whose cluster is watched; may be repeated. Default: its current one." env:"TOCSIN_KUBE_CONTEXTS" placeholder:"NAME"`
	AllContexts bool     `help:"Watch the clusters of all contexts." env:"TOCSIN_KUBE_ALL_CONTEXTS"`
	ClusterName string   `help:"What the cluster is called that this runs in. Default: ${default}." default:"in-cluster" env:"TOCSIN_KUBE_CLUSTER_NAME" placeholder:"NAME"`
	Namespace   string   `help:"The only namespace that is watched. Default: all, with the nodes." env:"TOCSIN_KUBE_NAMESPACE" placeholder:"NAME"`
}

// Choice is what the flags say.
func (f ClusterFlags) Choice() clusters.Choice {
	return clusters.Choice{Kubeconfig: f.Kubeconfig, Contexts: f.Contexts, All: f.AllContexts, InClusterName: f.ClusterName, Namespace: f.Namespace}
}

// Validate says which two exclude each other.
func (f ClusterFlags) Validate() error {
	if f.AllContexts && len(f.Contexts) > 0 {
		return errors.New("--context and --all-contexts: name one of them")
	}
	return nil
}

// LogFlags bound what is read of containers' logs.
type LogFlags struct {
	PerCluster    int           `name:"max-log-captures-per-cluster" help:"How many faults' logs are read at once of one cluster. Default: ${default}." default:"5" env:"TOCSIN_KUBE_MAX_LOG_CAPTURES_PER_CLUSTER" placeholder:"N"`
	Global        int           `name:"max-log-captures-global" help:"How many of all clusters. Default: ${default}." default:"20" env:"TOCSIN_KUBE_MAX_LOG_CAPTURES_GLOBAL" placeholder:"N"`
	MaxBytes      int           `name:"max-log-bytes-per-container" help:"How much is kept of a log: its last bytes. Default and most: ${default}." default:"10240" env:"TOCSIN_KUBE_MAX_LOG_BYTES_PER_CONTAINER" placeholder:"N"`
	MaxContainers int           `name:"max-containers-per-notification" help:"Of how many containers of a fault there are logs. Default and most: ${default}." default:"5" env:"TOCSIN_KUBE_MAX_CONTAINERS_PER_NOTIFICATION" placeholder:"N"`
	LogTimeout    time.Duration `help:"How long reading one log may take. Default: ${default}." default:"10s" env:"TOCSIN_KUBE_LOG_TIMEOUT" placeholder:"D"`
}

// Validate says which number is out of bounds.
func (f LogFlags) Validate() error {
	for _, b := range []struct {
		flag       string
		value, max int
	}{
		{"--max-log-captures-per-cluster", f.PerCluster, 100},
		{"--max-log-captures-global", f.Global, 1000},
		{"--max-log-bytes-per-container", f.MaxBytes, kube.MaxLog},
		{"--max-containers-per-notification", f.MaxContainers, kube.MaxContainers},
	} {
		if b.value < 1 || b.value > b.max {
			return fmt.Errorf("%s must be between 1 and %d", b.flag, b.max)
		}
	}
	if f.LogTimeout <= 0 || f.LogTimeout > time.Minute {
		return errors.New("--log-timeout must be more than 0 and at most 1m")
	}
	return nil
}

// Config is what the flags say.
func (f LogFlags) Config() logs.Config {
	return logs.Config{PerCluster: f.PerCluster, Global: f.Global, MaxBytes: f.MaxBytes, MaxContainers: f.MaxContainers, Timeout: f.LogTimeout}
}

// Command runs the kubewatch alone.
type Command struct {
	service.BusFlags
	service.LayoutFlags
	ClusterFlags
	LogFlags
	HealthFlag
	Token        string   `help:"Has to be set to serve them on anything but loopback." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	AllowedHosts []string `name:"allowed-host" help:"Host that requests for them may name beside loopback; may be repeated." env:"TOCSIN_ALLOWED_HOSTS" placeholder:"HOST"`
}

// Validate refuses what the embedded bus can't have.
func (c *Command) Validate() error { return c.CheckBus(c.BusFlags) }

// Run watches until ctx ends.
func (c *Command) Run(ctx context.Context, env service.Env) error {
	env.LogSettingsFile()
	found, err := clusters.Find(c.Choice())
	if err != nil {
		return err
	}
	registry := httpserve.NewRegistry()
	state := &State{}
	health := httpserve.Health{
		Addr: c.HealthAddr, Setting: healthSetting, Token: c.Token, Hosts: c.AllowedHosts,
		Ready: state.Ready, Registry: registry, Logger: env.Logger,
	}
	if c.HealthAddr != "" {
		if err := health.Check(ctx); err != nil {
			return err
		}
	}
	// What client-go says of itself is for who looks for a fault in it: what matters we
	// say ourselves.
	klog.SetSlogLogger(slog.New(quiet{env.Logger.With("component", "client-go").Handler()}))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return Run(ctx, Config{
			Bus: env.Bus(c.BusFlags), Provision: c.External(), Layout: c.Layout(), Clusters: found, Logs: c.Config(),
			Registry: registry, Logger: env.Logger, State: state, Version: env.Version.Version,
		})
	})
	if c.HealthAddr != "" {
		group.Go(func() error { return health.Serve(ctx) })
	}
	return group.Wait()
}

// quiet has everything at the level debug, but for what client-go says below that: there
// it has whole requests and answers, with all the secrets that are in a cluster's objects.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelDebug && q.Handler.Enabled(ctx, slog.LevelDebug)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }

// Healthcheck asks the kubewatch that runs here how it is.
type Healthcheck struct {
	HealthFlag
	service.Probe
}

// Run prints one line, or fails with the reason.
func (c *Healthcheck) Run(ctx context.Context, env service.Env) error {
	if c.HealthAddr == "" {
		return service.Usagef("the kubewatch says nowhere how it is: name an address by --health-addr or %s, for it and for this", healthSetting)
	}
	return c.Check(ctx, env, "the kubewatch", c.HealthAddr)
}
