package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/dashboard"
	"github.com/tocsin-bus/tocsin/services/dashboard/web"
	"github.com/tocsin-bus/tocsin/services/detector"
	"github.com/tocsin-bus/tocsin/services/ingest"
	"github.com/tocsin-bus/tocsin/services/ingest/script"
	"github.com/tocsin-bus/tocsin/services/investigator"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

type upCommand struct {
	service.BusFlags
	service.LayoutFlags
	ingest.Flags
	detector.RuleFlags
	Dashboard     dashboard.Flags    `embed:""`
	Investigation investigator.Flags `embed:""`
	NATSAddr      string             `name:"nats-addr" help:"Address of the embedded NATS server; port 0 picks a free port. Default: ${default}." default:"127.0.0.1:7422" env:"TOCSIN_NATS_ADDR" placeholder:"ADDR"`
	NATSWSAddr    string             `name:"nats-ws-addr" help:"Address of the NATS websocket, for dashboards in a browser; an empty value, also in the environment, turns it off. Default: ${default}." default:"127.0.0.1:7443" env:"TOCSIN_NATS_WS_ADDR" empty:"off" placeholder:"ADDR"`
	SyncAlways    bool               `help:"Sync each event to the disk before it is acknowledged: survives a power failure, about 30 times slower." env:"TOCSIN_SYNC_ALWAYS"`
	IdleExit      time.Duration      `help:"Exit after this long without a gateway, events and open investigations, such as 4h. Default: never." placeholder:"D"`
}

// Validate refuses flags that do not work together.
func (c *upCommand) Validate() error {
	if c.IdleExit < 0 {
		return errors.New("--idle-exit must not be negative")
	}
	if c.IdleExit > 0 && c.External() {
		return errors.New("--idle-exit works only with the embedded bus: tocsin does not know who uses an external one")
	}
	if _, err := c.Rules(); err != nil {
		return err
	}
	return c.CheckBus(c.BusFlags)
}

// checkAddrs returns an error for an address that needs a token.
func (c *upCommand) checkAddrs(ctx context.Context) error {
	c.NATSWSAddr = strings.TrimSpace(c.NATSWSAddr)
	addrs := []struct{ setting, addr string }{{"TOCSIN_INGEST_ADDR", c.IngestAddr}}
	if otlp := strings.TrimSpace(c.OTLPAddr); otlp != "" {
		addrs = append(addrs, struct{ setting, addr string }{"TOCSIN_OTLP_ADDR", otlp})
	}
	if !c.External() {
		addrs = append(addrs, struct{ setting, addr string }{"TOCSIN_NATS_ADDR", c.NATSAddr})
		if c.NATSWSAddr != "" {
			addrs = append(addrs, struct{ setting, addr string }{"TOCSIN_NATS_WS_ADDR", c.NATSWSAddr})
		}
	}
	for _, a := range addrs {
		if err := httpguard.CheckListen(ctx, a.setting, a.addr, c.Token); err != nil {
			return service.Usagef("%s", err)
		}
	}
	if c.Investigation.Investigator != "" {
		if err := c.Investigation.Check(ctx, c.Token); err != nil {
			return err
		}
	}
	return dashboard.CheckListen(ctx, c.Dashboard.DashboardAddr, c.Token)
}

// Run runs bus, ingest, detector and dashboard until ctx ends. After a failure of the store,
// the process restarts in place once the store can be written again.
func (c *upCommand) Run(ctx context.Context, env service.Env) error {
	env.LogSettingsFile()
	c.Token = strings.TrimSpace(c.Token)
	if err := c.checkAddrs(ctx); err != nil {
		return err
	}
	at, err := c.serve(ctx, env)
	if !errors.Is(err, errWritable) || ctx.Err() != nil {
		return err
	}
	exe, exeErr := os.Executable()
	if exeErr != nil {
		return errors.Join(err, exeErr)
	}
	env.Logger.Warn("restarting", "error", err)
	service.FlushLog(env.Logger)
	return fmt.Errorf("restart in place: %w", syscall.Exec(exe, c.restartArgs(os.Args, at), os.Environ())) //nolint:gosec // this program
}

// serve runs all services until ctx ends, and returns where they listened.
func (c *upCommand) serve(ctx context.Context, env service.Env) (at statedir.Runtime, err error) {
	dir, err := statedir.Open(env.StateDir)
	if err != nil {
		return at, err
	}
	if err := dir.Restrict(); err != nil {
		env.Logger.Warn("could not restrict the state directory to this user", "error", err)
	}
	lock, err := dir.Lock()
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()

	u := up{cmd: c, env: env, lock: lock, runtime: statedir.Runtime{PID: os.Getpid(), Version: env.Version.Version, NATSURL: withoutUsers(c.NATSURL)}}
	u.proxySecret = cmp.Or(c.Investigation.ProxySecret, rand.Text())
	busConfig := env.Bus(c.BusFlags)
	if !c.External() {
		server, err := embedded.Start(ctx, embedded.Config{
			Dir: dir, Addr: c.NATSAddr, WSAddr: c.NATSWSAddr, SyncAlways: c.SyncAlways, Logger: env.Logger,
			WSGuard: httpguard.Policy{AllowedHosts: c.AllowedHosts, AllowedOrigins: c.AllowedOrigins}.WithListener(c.NATSWSAddr).CheckTrusted,
		})
		if err != nil && ctx.Err() != nil {
			env.Logger.Info("stopped during the start", "error", err)
			return at, nil
		}
		if err != nil {
			return at, err
		}
		defer server.Close()
		u.server, busConfig = server, bus.Config{Server: server, Logger: env.Logger}
		u.runtime.NATSURL, u.runtime.NATSWSURL = server.URL(), server.WSURL()
		u.browser = dashboard.Browser{URL: server.WSURL, OnAllAddresses: anyHost(c.NATSWSAddr), Key: dashboard.KeyIn(dir)}
	}
	err = u.run(ctx, busConfig)
	return u.runtime, err
}

// anyHost reports whether addr listens on all addresses of this machine.
func anyHost(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip, ipErr := netip.ParseAddr(host)
	return err == nil && (host == "" || ipErr == nil && ip.IsUnspecified())
}

// withoutUsers removes user names and passwords from a list of URLs.
func withoutUsers(urls string) string {
	list := strings.Split(urls, ",")
	for i, raw := range list {
		if u, err := url.Parse(strings.TrimSpace(raw)); err == nil && u.User != nil {
			u.User = nil
			list[i] = u.String()
		}
	}
	return strings.Join(list, ",")
}

// up is a running bus with its services.
type up struct {
	cmd     *upCommand
	env     service.Env
	lock    *statedir.Lock
	server  *embedded.Server // nil with an external bus
	runtime statedir.Runtime
	// announced reports whether runtime.json is written.
	announced bool
	// browser is how browsers join the embedded bus.
	browser dashboard.Browser
	// proxySecret proves the dashboard to the investigator of this process, whose URL is
	// investigatorURL once it listens.
	proxySecret     string
	investigatorURL atomic.Pointer[string]
	// lastUse is when an event was last accepted, in Unix nanoseconds.
	lastUse atomic.Int64
	// investigations shows what the investigator does, if one runs.
	investigations investigator.Monitor
}

// run runs the services. They stop in the order in which events pass through them, so
// that the last accepted events are still processed and their alerts delivered.
func (u *up) run(ctx context.Context, busConfig bus.Config) error {
	rules, err := u.cmd.Rules()
	if err != nil {
		return err // not reached: Validate has checked them
	}
	u.cmd.Warn(u.env.Logger)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	accepting, stopAccepting := context.WithCancel(ctx)
	defer stopAccepting()
	detectorCtx, stopDetector := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDetector()
	dashboardCtx, stopDashboard := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDashboard()

	reached := make(chan struct{})
	detectorDone := make(chan error, 1)
	go func() {
		defer stopAccepting() // without a detector, events would be accepted and never checked
		detectorDone <- detector.Run(detectorCtx, detector.Config{
			Bus: busConfig, Provision: u.server == nil, Layout: u.cmd.Layout(), Shared: u.server == nil,
			Version: u.env.Version.Version, Rules: rules, Registry: registry, Logger: u.env.Logger, Ready: sync.OnceFunc(func() { close(reached) }),
		})
	}()

	page := make(chan string, 1)
	pageKnown := make(chan string, 1) // for the investigator
	dashboardDone := make(chan error, 1)
	go func() {
		defer stopAccepting() // an empty dashboard would look as if nothing were wrong
		dashboardDone <- dashboard.Run(dashboardCtx, u.dashboard(busConfig, registry, func(url string) { page <- url; pageKnown <- url }))
	}()

	ingestCfg := u.cmd.Config(u.server == nil, registry)
	ingestCfg.Bus, ingestCfg.Provision, ingestCfg.Layout, ingestCfg.Logger = busConfig, u.server == nil, u.cmd.Layout(), u.env.Logger
	ingestCfg.Version = u.env.Version.Version
	ingestCfg.Accepted = func() { u.lastUse.Store(time.Now().UnixNano()) }
	listening := make(chan ingest.Listening, 1)
	ingestCfg.Ready = func(at ingest.Listening) { listening <- at }

	group, accepting := errgroup.WithContext(accepting)
	group.Go(func() error { return ingest.Run(accepting, ingestCfg) })
	investigating := make(chan string, 1)
	if u.cmd.Investigation.Investigator != "" {
		group.Go(func() error {
			select {
			case <-accepting.Done():
				return nil
			case dashboardURL := <-pageKnown:
				return u.investigate(accepting, busConfig, registry, dashboardURL, func(url string) {
					u.investigatorURL.Store(&url)
					investigating <- url
				})
			}
		})
	} else {
		investigating <- ""
	}
	group.Go(func() error {
		err := u.announce(accepting, listening, page, investigating)
		if err != nil || !u.announced {
			return err
		}
		group.Go(func() error { u.keepAnnounced(accepting); return nil })
		if u.reachedBus(accepting, reached) {
			u.printURLs()
		}
		if u.cmd.IdleExit > 0 && u.idle(accepting) {
			stopAccepting()
		}
		return nil
	})
	if u.server != nil {
		group.Go(func() error { return u.untilWritable(accepting) })
	}
	if log, ok := findLog(statedir.At(u.env.StateDir).Log(), u.env.Stderr, u.env.Stdout); ok {
		group.Go(func() error { log.rotateOver(accepting, maxLog, u.env.Logger); return nil })
	}
	err = group.Wait()
	stopDetector()
	err = errors.Join(err, <-detectorDone)
	stopDashboard()
	err = errors.Join(err, <-dashboardDone)
	if err != nil && ctx.Err() != nil && !u.announced {
		u.env.Logger.Info("stopped during the start", "error", err)
		return nil
	}
	return err
}

// dashboard returns the configuration of the dashboard in tocsin up. With the embedded
// bus, it needs no credentials.
func (u *up) dashboard(busConfig bus.Config, registry *prometheus.Registry, ready func(string)) dashboard.Config {
	c := u.cmd
	cfg := c.Dashboard.Config(u.env, c.BusFlags, dashboard.ListenFlags{
		Token: c.Token, AllowedHosts: c.AllowedHosts, ProxyFlags: c.ProxyFlags, ProxySecret: c.Investigation.ProxySecret,
	})
	cfg.Registry, cfg.Ready = registry, ready
	if c.Investigation.Investigator != "" {
		cfg.Investigator = dashboard.Investigator{Secret: u.proxySecret, URL: func() string {
			if url := u.investigatorURL.Load(); url != nil {
				return *url
			}
			return ""
		}}
	}
	switch {
	case u.server != nil:
		cfg.Bus, cfg.Actions, cfg.Browser = busConfig, &busConfig, u.browser
	case cfg.Actions == nil: // these credentials are for all services
		cfg.Actions = &busConfig
	}
	return cfg
}

// loopback are the addresses from which the dashboard of this process reaches the investigator.
var loopback = []httpguard.Network{
	{Prefix: netip.MustParsePrefix("127.0.0.0/8")}, {Prefix: netip.MustParsePrefix("::1/128")},
}

// investigate runs an investigator until ctx ends. It trusts the users that the dashboard of this
// process names, which proves itself by the secret. Links to sessions name that dashboard, unless
// the configuration names another.
func (u *up) investigate(ctx context.Context, busConfig bus.Config, registry *prometheus.Registry, dashboardURL string, ready func(string)) error {
	c := u.cmd
	cfg := c.Investigation.Config(u.env, investigator.ListenFlags{Token: c.Token, AllowedHosts: c.AllowedHosts, ProxyFlags: c.ProxyFlags})
	cfg.Bus, cfg.Provision, cfg.Layout, cfg.Registry, cfg.Ready = busConfig, u.server == nil, c.Layout(), registry, ready
	cfg.DashboardURL = dashboardURL
	cfg.Proxies.Networks, cfg.Proxies.Secret = slices.Concat(cfg.Proxies.Networks, loopback), u.proxySecret
	hangup, stop := investigator.Hangup()
	defer stop()
	cfg.Hangup, cfg.Monitor = hangup, &u.investigations
	return investigator.Run(ctx, cfg)
}

// announce writes runtime.json once everything listens, unless ctx ends before.
func (u *up) announce(ctx context.Context, listening <-chan ingest.Listening, page, investigating <-chan string) error {
	investigates := false
	for u.runtime.IngestURL == "" || u.runtime.DashboardURL == "" || !investigates {
		select {
		case at := <-listening:
			u.runtime.IngestURL, u.runtime.OTLPURL = at.Ingest, at.OTLP
		case u.runtime.InvestigatorURL = <-investigating:
			investigates = true
		case u.runtime.DashboardURL = <-page:
		case <-ctx.Done():
			return nil
		}
	}
	err := u.lock.Announce(u.runtime)
	u.announced = err == nil
	return err
}

// warnAfter is how long an external bus may take before a warning is logged.
const warnAfter = 500 * time.Millisecond

// reachedBus waits for an external bus. It returns false when ctx ends before.
func (u *up) reachedBus(ctx context.Context, reached <-chan struct{}) bool {
	if u.server != nil {
		return true
	}
	warn := time.NewTimer(warnAfter)
	defer warn.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-reached:
			return true
		case <-warn.C:
			u.env.Logger.Warn("waiting for the bus", "nats", u.runtime.NATSURL)
		}
	}
}

// printURLs prints where the services listen.
func (u *up) printURLs() {
	text := fmt.Sprintf("tocsin is up, pid %d\n", u.runtime.PID)
	for _, line := range []struct{ what, at string }{
		{"dashboard", u.runtime.DashboardURL}, {"investigator", u.runtime.InvestigatorURL}, {"ingest", u.runtime.IngestURL}, {"otlp", u.runtime.OTLPURL}, {"nats", u.runtime.NATSURL},
		{"websocket", u.runtime.NATSWSURL}, {"state", u.env.StateDir},
		{"settings", u.env.SettingsFile},
	} {
		if line.at != "" {
			text += fmt.Sprintf("  %-12s %s\n", line.what, line.at)
		}
	}
	if !web.Built() || !script.Built() {
		text += fmt.Sprintf("  %-12s %s\n", "note", "this build lacks the dashboard's page or tocsin.js, as go install does: install a release, or run make build in a clone")
	}
	_, err := fmt.Fprint(u.env.Stdout, text)
	if err != nil {
		u.env.Logger.Warn("could not print the URLs", "error", err) // a closed stdout is no reason to stop
	}
}
