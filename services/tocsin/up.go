package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/detector"
	"github.com/tocsin-bus/tocsin/services/gateway"
	"github.com/tocsin-bus/tocsin/services/ingest"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

type upCommand struct {
	service.BusFlags
	ingest.Flags
	NATSAddr   string        `name:"nats-addr" help:"Where the embedded NATS listens; port 0 picks a free one. Default: ${default}." default:"127.0.0.1:7422" env:"TOCSIN_NATS_ADDR" placeholder:"ADDR"`
	NATSWSAddr string        `name:"nats-ws-addr" help:"Its websocket, for dashboards in a browser; empty, also in the environment, turns it off. Default: ${default}." default:"127.0.0.1:7443" env:"TOCSIN_NATS_WS_ADDR" empty:"off" placeholder:"ADDR"`
	SyncAlways bool          `help:"Write each event through to the disk before it is acknowledged: survives a power cut, about 30 times slower." env:"TOCSIN_SYNC_ALWAYS"`
	IdleExit   time.Duration `help:"End after this long without a gateway and without intake, such as 4h. Default: never." placeholder:"D"`
}

// Validate refuses what could only work half.
func (c *upCommand) Validate() error {
	if c.IdleExit < 0 {
		return errors.New("--idle-exit must not be negative")
	}
	if c.IdleExit > 0 && c.External() {
		return errors.New("--idle-exit works with the embedded bus only: who uses an external one is not known here")
	}
	return nil
}

// checkAddrs says which address can't be listened on, or may not be.
func (c *upCommand) checkAddrs(ctx context.Context) error {
	addrs := []struct{ setting, addr string }{{"TOCSIN_INGEST_ADDR", c.IngestAddr}}
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
	return nil
}

// Run runs bus, intake and detector until ctx ends. When the store could not be
// written for a while, the process begins anew in its place.
func (c *upCommand) Run(ctx context.Context, env service.Env) error {
	c.Token = strings.TrimSpace(c.Token)
	if err := c.checkAddrs(ctx); err != nil {
		return err
	}
	err := c.serve(ctx, env)
	if !errors.Is(err, errWritable) || ctx.Err() != nil {
		return err
	}
	exe, exeErr := os.Executable()
	if exeErr != nil {
		return errors.Join(err, exeErr)
	}
	env.Logger.Warn("starting anew", "because", err)
	return fmt.Errorf("start anew: %w", syscall.Exec(exe, os.Args, os.Environ())) //nolint:gosec // this very program
}

func (c *upCommand) serve(ctx context.Context, env service.Env) (err error) {
	dir, err := statedir.Open(env.StateDir)
	if err != nil {
		return err
	}
	lock, err := dir.Lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()

	u := up{cmd: c, env: env, lock: lock, runtime: statedir.Runtime{PID: os.Getpid(), Version: env.Version.Version, NATSURL: withoutUsers(c.NATSURL)}}
	join := env.Bus(c.BusFlags)
	if !c.External() {
		server, err := bus.StartServer(ctx, bus.ServerConfig{
			Dir: dir, Addr: c.NATSAddr, WSAddr: c.NATSWSAddr, SyncAlways: c.SyncAlways, Logger: env.Logger,
			WSGuard: httpguard.Policy{AllowedHosts: c.AllowedHosts, AllowedOrigins: c.AllowedOrigins}.ListeningOn(c.NATSWSAddr).Websocket,
		})
		if err != nil {
			return err
		}
		defer server.Close()
		u.server, join = server, bus.ConnConfig{Server: server, Logger: env.Logger}
		u.runtime.NATSURL, u.runtime.NATSWSURL = server.URL(), server.WSURL()
	}
	return u.run(ctx, join)
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
	server  *bus.Server // nil when the bus is somebody else's
	runtime statedir.Runtime
	// lastUse is when something was last taken in, as Unix nanoseconds.
	lastUse atomic.Int64
}

// run runs the services. They end in the order in which events pass through
// them, so that what was accepted last is still folded in and told.
func (u *up) run(ctx context.Context, join bus.ConnConfig) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	u.lastUse.Store(time.Now().UnixNano())

	taking, stopTaking := context.WithCancel(ctx)
	defer stopTaking()
	detecting, stopDetecting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDetecting()

	detection := make(chan error, 1)
	go func() {
		defer stopTaking() // without a detector, nobody would look at what is taken in
		detection <- detector.Run(detecting, detector.Config{
			Bus: join, Provision: u.server == nil, Registry: registry, Logger: u.env.Logger,
		})
	}()

	intake := u.cmd.Config(registry)
	intake.Bus, intake.Provision, intake.Logger = join, u.server == nil, u.env.Logger
	intake.Accepted = func() { u.lastUse.Store(time.Now().UnixNano()) }
	announced := make(chan error, 1)
	intake.Ready = func(at string) { announced <- u.announce(at) }

	group, taking := errgroup.WithContext(taking)
	group.Go(func() error { return ingest.Run(taking, intake) })
	group.Go(func() error {
		select {
		case err := <-announced:
			return err
		case <-taking.Done():
			return nil
		}
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
	err := group.Wait()
	stopDetecting()
	return errors.Join(err, <-detection)
}

// announce writes runtime.json and prints the URLs.
func (u *up) announce(ingestURL string) error {
	u.runtime.IngestURL = ingestURL
	if err := u.lock.Announce(u.runtime); err != nil {
		return err
	}
	websocket := ""
	if u.runtime.NATSWSURL != "" {
		websocket = "  websocket  " + u.runtime.NATSWSURL + "\n"
	}
	_, err := fmt.Fprintf(u.env.Stdout, "tocsin is up, pid %d\n  intake     %s\n  nats       %s\n%s  state      %s\n",
		u.runtime.PID, u.runtime.IngestURL, u.runtime.NATSURL, websocket, u.env.StateDir)
	if err != nil {
		u.env.Logger.Warn("the URLs could not be printed", "error", err) // a closed stdout is no reason to end
	}
	return nil
}

// idleLooks is how many times in the idle time is looked for gateways.
const idleLooks = 20

// idle returns true once nothing was taken in and no gateway was there for the
// idle time, and false when ctx ends first.
func (u *up) idle(ctx context.Context) bool {
	tick := time.NewTicker(max(u.cmd.IdleExit/idleLooks, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case now := <-tick.C:
			if u.server.Connections(gateway.ConnName) > 0 {
				u.lastUse.Store(now.UnixNano())
			}
			if now.Sub(time.Unix(0, u.lastUse.Load())) >= u.cmd.IdleExit {
				u.env.Logger.Info("nobody uses the bus: it ends", "idle", u.cmd.IdleExit)
				return true
			}
		}
	}
}

const (
	// faultTick is how often is looked whether the store failed and could be
	// written again.
	faultTick = 5 * time.Second
	// roomAgain is how much disk must be free for that, in bytes.
	roomAgain = 64 << 20
)

// errWritable says that a store which could not be written has room again. The
// server itself does not try again.
var errWritable = errors.New("there is room for the store again")

// untilWritable returns errWritable for a server whose store failed, as soon as
// a new one could write it, and nil when ctx ends.
func (u *up) untilWritable(ctx context.Context) error {
	tick := time.NewTicker(faultTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		fault := u.server.Fault()
		if fault == nil {
			continue
		}
		if free, err := freeBytes(u.env.StateDir); err == nil && free >= roomAgain {
			return fmt.Errorf("%w: it had failed: %w", errWritable, fault)
		}
	}
}
