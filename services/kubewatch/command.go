package kubewatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/tocsin-bus/tocsin/services/kubewatch/logs"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/service"
)

const healthSetting = "TOCSIN_KUBEWATCH_HEALTH_ADDR"

// HealthFlag is the address of the kubewatch's health listener.
type HealthFlag struct {
	HealthAddr string `help:"Address that serves /healthz, /readyz and /metrics; empty turns them off." env:"TOCSIN_KUBEWATCH_HEALTH_ADDR" placeholder:"ADDR"`
}

// ClusterFlags select the clusters to watch.
type ClusterFlags struct {
	Kubeconfig  string   `help:"Kubeconfig file, or several in the format of KUBECONFIG. Default: ~/.kube/config; without that file, the cluster that kubewatch runs in." env:"TOCSIN_KUBE_KUBECONFIG,KUBECONFIG" placeholder:"FILE"`
	Contexts    []string `name:"context" help:"Context of the kubeconfig to watch; may be repeated. Default: the current context." env:"TOCSIN_KUBE_CONTEXTS" placeholder:"NAME"`
	AllContexts bool     `help:"Watch the clusters of all contexts." env:"TOCSIN_KUBE_ALL_CONTEXTS"`
	ClusterName string   `help:"Name of the cluster that kubewatch runs in. Default: ${default}." default:"in-cluster" env:"TOCSIN_KUBE_CLUSTER_NAME" placeholder:"NAME"`
	Namespace   string   `help:"Namespace to watch. Default: all namespaces, and the nodes." env:"TOCSIN_KUBE_NAMESPACE" placeholder:"NAME"`
}

// Validate refuses flags that exclude each other.
func (f ClusterFlags) Validate() error {
	if f.AllContexts && len(f.Contexts) > 0 {
		return errors.New("--context and --all-contexts exclude each other: set one of them")
	}
	return nil
}

// LogFlags bound reading the logs of containers.
type LogFlags struct {
	PerCluster    int           `name:"max-log-captures-per-cluster" help:"Faults of one cluster whose logs are read at once. Default: ${default}." default:"5" env:"TOCSIN_KUBE_MAX_LOG_CAPTURES_PER_CLUSTER" placeholder:"N"`
	Global        int           `name:"max-log-captures-global" help:"Faults of all clusters whose logs are read at once. Default: ${default}." default:"20" env:"TOCSIN_KUBE_MAX_LOG_CAPTURES_GLOBAL" placeholder:"N"`
	MaxBytes      int           `name:"max-log-bytes-per-container" help:"Bytes kept of a log, from its end. Default and maximum: ${default}." default:"10240" env:"TOCSIN_KUBE_MAX_LOG_BYTES_PER_CONTAINER" placeholder:"N"`
	MaxContainers int           `name:"max-containers-per-notification" help:"Containers of a fault whose logs are read. Default and maximum: ${default}." default:"5" env:"TOCSIN_KUBE_MAX_CONTAINERS_PER_NOTIFICATION" placeholder:"N"`
	LogTimeout    time.Duration `help:"Timeout of reading one log. Default: ${default}." default:"10s" env:"TOCSIN_KUBE_LOG_TIMEOUT" placeholder:"D"`
}

// Validate refuses numbers that are out of bounds.
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

// Config returns the values of the flags.
func (f LogFlags) Config() logs.Config {
	return logs.Config{PerCluster: f.PerCluster, Global: f.Global, MaxBytes: f.MaxBytes, MaxContainers: f.MaxContainers, Timeout: f.LogTimeout}
}

// Command is the command that runs a kubewatch.
type Command struct {
	service.BusFlags
	service.LayoutFlags
	ClusterFlags
	LogFlags
	HealthFlag
	Token        string   `help:"Token that the health listener requires; needed if it listens on anything but loopback." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	AllowedHosts []string `name:"allowed-host" help:"Host that requests to the health listener may name, in addition to loopback; may be repeated." env:"TOCSIN_ALLOWED_HOSTS" placeholder:"HOST"`
}

// Validate refuses settings that the embedded bus does not support.
func (c *Command) Validate() error { return c.CheckBus(c.BusFlags) }

// Run runs a kubewatch until ctx ends.
func (c *Command) Run(ctx context.Context, env service.Env) error {
	env.LogSettingsFile()
	found, err := c.FindClusters()
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
	// client-go's own log helps only to debug client-go.
	klog.SetSlogLogger(slog.New(debugOnly{env.Logger.With("component", "client-go").Handler()}))
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

// debugOnly logs everything at level debug, and discards records below that level:
// client-go logs whole requests and answers there, with all secrets in the objects.
type debugOnly struct{ slog.Handler }

func (h debugOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelDebug && h.Handler.Enabled(ctx, slog.LevelDebug)
}

func (h debugOnly) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

func (h debugOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugOnly{h.Handler.WithAttrs(attrs)}
}
func (h debugOnly) WithGroup(name string) slog.Handler { return debugOnly{h.Handler.WithGroup(name)} }

// Healthcheck is the command that queries the health of a local kubewatch.
type Healthcheck struct {
	HealthFlag
	service.Probe
}

// Run prints one line if the kubewatch is ready, and otherwise returns the reason.
func (c *Healthcheck) Run(ctx context.Context, env service.Env) error {
	if c.HealthAddr == "" {
		return service.Usagef("the kubewatch has no health listener: set --health-addr or %s for the kubewatch and for this command", healthSetting)
	}
	return c.Check(ctx, env, "the kubewatch", c.HealthAddr)
}
