package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
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
	Dashboard  dashboard.Flags `embed:""`
	NATSAddr   string          `name:"nats-addr" help:"Where the embedded NATS listens; port 0 picks a free one. Default: ${default}." default:"127.0.0.1:7422" env:"TOCSIN_NATS_ADDR" placeholder:"ADDR"`
	NATSWSAddr string          `name:"nats-ws-addr" help:"Its websocket, for dashboards in a browser; empty, also in the environment, turns it off. Default: ${default}." default:"127.0.0.1:7443" env:"TOCSIN_NATS_WS_ADDR" empty:"off" placeholder:"ADDR"`
	SyncAlways bool            `help:"Write each event through to the disk before it is acknowledged: survives a power cut, about 30 times slower." env:"TOCSIN_SYNC_ALWAYS"`
	IdleExit   time.Duration   `help:"End after this long without a gateway and without intake, such as 4h. Default: never." placeholder:"D"`
}

// Validate refuses what could only work half.
func (c *upCommand) Validate() error {
	if c.IdleExit < 0 {
		return errors.New("--idle-exit must not be negative")
	}
	if c.IdleExit > 0 && c.External() {
		return errors.New("--idle-exit works with the embedded bus only: who uses an external one is not known here")
	}
	if _, err := c.Rules(); err != nil {
		return err
	}
	return c.CheckBus(c.BusFlags)
}

// checkAddrs says which address can't be listened on, or may not be.
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
	return dashboard.CheckListen(ctx, c.Dashboard.DashboardAddr, c.Token)
}

// Run runs bus, intake, detector and dashboard until ctx ends. When the store could not be
// written for a while, the process begins anew in its place.
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
	env.Logger.Warn("starting anew", "because", err)
	service.FlushLog(env.Logger)
	return fmt.Errorf("start again in place: %w", syscall.Exec(exe, c.inPlace(os.Args, at), os.Environ())) //nolint:gosec // this very program
}

// serve runs all until ctx ends, and returns where it listened.
func (c *upCommand) serve(ctx context.Context, env service.Env) (at statedir.Runtime, err error) {
	dir, err := statedir.Open(env.StateDir)
	if err != nil {
		return at, err
	}
	if err := dir.Restrict(); err != nil {
		env.Logger.Warn("others may read or write the state directory", "error", err)
	}
	lock, err := dir.Lock()
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()

	u := up{cmd: c, env: env, lock: lock, runtime: statedir.Runtime{PID: os.Getpid(), Version: env.Version.Version, NATSURL: withoutUsers(c.NATSURL)}}
	join := env.Bus(c.BusFlags)
	if !c.External() {
		server, err := embedded.Start(ctx, embedded.Config{
			Dir: dir, Addr: c.NATSAddr, WSAddr: c.NATSWSAddr, SyncAlways: c.SyncAlways, Logger: env.Logger,
			WSGuard: httpguard.Policy{AllowedHosts: c.AllowedHosts, AllowedOrigins: c.AllowedOrigins}.ListeningOn(c.NATSWSAddr).CheckTrusted,
		})
		if err != nil && ctx.Err() != nil {
			env.Logger.Info("asked to end during the start", "error", err)
			return at, nil
		}
		if err != nil {
			return at, err
		}
		defer server.Close()
		u.server, join = server, bus.ConnConfig{Server: server, Logger: env.Logger}
		u.runtime.NATSURL, u.runtime.NATSWSURL = server.URL(), server.WSURL()
		u.browser = dashboard.Browser{URL: server.WSURL, Anywhere: anyHost(c.NATSWSAddr), Key: dashboard.KeyIn(dir)}
	}
	err = u.run(ctx, join)
	return u.runtime, err
}

// anyHost says whether what listens on addr can be reached by every name of this
// machine.
func anyHost(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip, ipErr := netip.ParseAddr(host)
	return err == nil && (host == "" || ipErr == nil && ip.IsUnspecified())
}

// withoutUsers takes names and passwords out of a list of URLs.
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
	server  *embedded.Server // nil when the bus is somebody else's
	runtime statedir.Runtime
	// announced says that runtime.json is written.
	announced bool
	// browser is how browsers join the bus, where it is ours.
	browser dashboard.Browser
	// lastUse is when something was last taken in, as Unix nanoseconds.
	lastUse atomic.Int64
}

// run runs the services. They end in the order in which events pass through
// them, so that what was accepted last is still folded in and told.
func (u *up) run(ctx context.Context, join bus.ConnConfig) error {
	judged, err := u.cmd.Rules()
	if err != nil {
		return err // not reached: Validate has read them
	}
	u.cmd.Warn(u.env.Logger)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	u.lastUse.Store(time.Now().UnixNano())

	taking, stopTaking := context.WithCancel(ctx)
	defer stopTaking()
	detecting, stopDetecting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDetecting()
	showing, stopShowing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopShowing()

	reached := make(chan struct{})
	detection := make(chan error, 1)
	go func() {
		defer stopTaking() // without a detector, nobody would look at what is taken in
		detection <- detector.Run(detecting, detector.Config{
			Bus: join, Provision: u.server == nil, Layout: u.cmd.Layout(), Shared: u.server == nil,
			Version: u.env.Version.Version, Rules: judged, Registry: registry, Logger: u.env.Logger, Ready: sync.OnceFunc(func() { close(reached) }),
		})
	}()

	page := make(chan string, 1)
	shown := make(chan error, 1)
	go func() {
		defer stopTaking() // people would look at nothing, and think that all is well
		shown <- dashboard.Run(showing, u.dashboard(join, registry, func(url string) { page <- url }))
	}()

	intake := u.cmd.Config(u.server == nil, registry)
	intake.Bus, intake.Provision, intake.Layout, intake.Logger = join, u.server == nil, u.cmd.Layout(), u.env.Logger
	intake.Version = u.env.Version.Version
	intake.Accepted = func() { u.lastUse.Store(time.Now().UnixNano()) }
	listening := make(chan ingest.Listening, 1)
	intake.Ready = func(at ingest.Listening) { listening <- at }

	group, taking := errgroup.WithContext(taking)
	group.Go(func() error { return ingest.Run(taking, intake) })
	group.Go(func() error {
		err := u.announce(taking, listening, page)
		if err != nil || !u.announced {
			return err
		}
		group.Go(func() error { u.keepAnnounced(taking); return nil })
		if u.reachedBus(taking, reached) {
			u.printURLs()
		}
		return nil
	})
	if u.cmd.IdleExit > 0 {
		group.Go(func() error {
			if u.idle(taking) {
				stopTaking()
			}
			return nil
		})
	}
	if u.server != nil {
		group.Go(func() error { return u.untilWritable(taking) })
	}
	if log, ok := findLog(statedir.At(u.env.StateDir).Log(), u.env.Stderr, u.env.Stdout); ok {
		group.Go(func() error { log.keepSmall(taking, maxLog, u.env.Logger); return nil })
	}
	err = group.Wait()
	stopDetecting()
	err = errors.Join(err, <-detection)
	stopShowing()
	err = errors.Join(err, <-shown)
	if err != nil && ctx.Err() != nil && !u.announced {
		u.env.Logger.Info("asked to end during the start", "error", err)
		return nil
	}
	return err
}

// dashboard is the configuration of the dashboard within tocsin up. What it needs of
// the bus of this process it has by itself.
func (u *up) dashboard(join bus.ConnConfig, registry *prometheus.Registry, ready func(string)) dashboard.Config {
	c := u.cmd
	cfg := c.Dashboard.Config(u.env, c.BusFlags, dashboard.ListenFlags{
		Token: c.Token, AllowedHosts: c.AllowedHosts, ProxyFlags: c.ProxyFlags,
	})
	cfg.Registry, cfg.Ready = registry, ready
	switch {
	case u.server != nil:
		cfg.Bus, cfg.Desk, cfg.Browser = join, &join, u.browser
	case cfg.Desk == nil: // these credentials are for all services: the desk's are among them
		cfg.Desk = &join
	}
	return cfg
}

// announce writes runtime.json once everything listens: gateways wait for the bus
// by themselves. It writes nothing where ctx ends before.
func (u *up) announce(ctx context.Context, intake <-chan ingest.Listening, page <-chan string) error {
	for u.runtime.IngestURL == "" || u.runtime.DashboardURL == "" {
		select {
		case at := <-intake:
			u.runtime.IngestURL, u.runtime.OTLPURL = at.Intake, at.OTLP
		case u.runtime.DashboardURL = <-page:
		case <-ctx.Done():
			return nil
		}
	}
	err := u.lock.Announce(u.runtime)
	u.announced = err == nil
	return err
}

// quietWait is how long a bus may take until its absence is told.
const quietWait = 500 * time.Millisecond

// reachedBus waits for somebody else's bus, and says so, until ctx ends.
func (u *up) reachedBus(ctx context.Context, reached <-chan struct{}) bool {
	if u.server != nil {
		return true
	}
	quiet := time.NewTimer(quietWait)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-reached:
			return true
		case <-quiet.C:
			u.env.Logger.Warn("waiting for the bus", "nats", u.runtime.NATSURL)
		}
	}
}

// printURLs says that the services can be used.
func (u *up) printURLs() {
	text := fmt.Sprintf("tocsin is up, pid %d\n", u.runtime.PID)
	for _, line := range []struct{ what, at string }{
		{"dashboard", u.runtime.DashboardURL}, {"intake", u.runtime.IngestURL}, {"otlp", u.runtime.OTLPURL}, {"nats", u.runtime.NATSURL},
		{"websocket", u.runtime.NATSWSURL}, {"state", u.env.StateDir},
		{"settings", u.env.SettingsFile},
	} {
		if line.at != "" {
			text += fmt.Sprintf("  %-10s %s\n", line.what, line.at)
		}
	}
	if !web.Built() || !script.Built() {
		text += fmt.Sprintf("  %-10s %s\n", "note", "this build lacks the dashboard's page or tocsin.js, as go install does: install a release, or run make build in a clone")
	}
	_, err := fmt.Fprint(u.env.Stdout, text)
	if err != nil {
		u.env.Logger.Warn("the URLs could not be printed", "error", err) // a closed stdout is no reason to end
	}
}
