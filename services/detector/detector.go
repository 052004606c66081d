// Package detector turns telemetry into alerts.
//
// It is a fold over the stream TELEMETRY: package fold decides, and this package feeds
// it in order, publishes its alerts and keeps its state. The state is the newest
// snapshot plus the messages after it. A start replays those messages and skips the
// alerts that ALERTS already contains, so a process that ends at any moment neither
// loses an alert nor publishes it twice.
//
// Telemetry may be split by app into partitions, each with a fold of its own. If several
// detectors share a bus, package ownership decides which of them works on which
// partition.
package detector

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
)

// Config configures a detector.
type Config struct {
	// Bus is the bus to join. Name and Role are filled in here.
	Bus bus.Config
	// Provision creates missing streams first. It is for an external bus.
	Provision bool
	// Layout is the layout of the streams that Provision creates.
	Layout bus.Layout
	// Shared is set if other detectors may be on the bus. Then each partition has one
	// owner, and another detector takes it over when the owner ends. If it is not set,
	// the stream has one partition and this is its only detector.
	Shared bool
	// SnapshotEvery is the time between two saves of a changed state; 0 means
	// DefaultSnapshotEvery. A restart replays the telemetry since the last save.
	SnapshotEvery time.Duration
	// Rules are the detection rules of each app; the zero value has the specification's.
	// Detectors that share a bus should have the same.
	Rules    ruleset.Table
	Registry prometheus.Registerer
	Logger   *slog.Logger
	// Ready is called once, when the detector has caught up with its partitions or
	// stands by. It may be nil.
	Ready func()
	// State receives the health of the detector. It may be nil.
	State *State
	// Version is the version of the build, for query.health.
	Version string
}

const (
	// DefaultSnapshotEvery is the default of Config.SnapshotEvery.
	DefaultSnapshotEvery = 10 * time.Second
	// minPublishWindow is the smallest number of alerts that may wait for an
	// acknowledgement. Each partition has up to publishBatch in flight.
	minPublishWindow = 4 * publishBatch
	// prepareTimeout bounds one attempt to prepare on the bus, or to save a snapshot.
	prepareTimeout = 30 * time.Second
	// sessionPause is the pause between two sessions on the bus.
	sessionPause = 500 * time.Millisecond
)

// Run runs a detector until ctx ends, then saves its state and returns nil. It waits for
// a bus that is unreachable.
func Run(ctx context.Context, cfg Config) error {
	if cfg.SnapshotEvery == 0 {
		cfg.SnapshotEvery = DefaultSnapshotEvery
	}
	if cfg.State == nil {
		cfg.State = &State{}
	}
	ready := cfg.Ready
	cfg.Ready = sync.OnceFunc(func() {
		if ready != nil {
			ready()
		}
	})
	log := cfg.Logger.With("component", "detector")
	d := &process{cfg: cfg, identity: presence.Identify("detector", cfg.Version, log), state: cfg.State, log: log}
	d.metrics = newMetrics(cfg.Registry, d.exportStats)
	d.state.setRules(cfg.Rules)
	defer d.state.setJoined(false, 0)
	return bus.Run(ctx, bus.RunConfig{
		Config: d.session("tocsin detector in"), Pause: sessionPause,
		Retry: func(err error) bool { return errors.Is(err, errStreamRecreated) },
		Reachable: func(err error) {
			if err != nil {
				d.state.setBlocked(err)
			}
		},
	}, d.runSession)
}

// errStreamRecreated means that the stream TELEMETRY was recreated, perhaps with another
// number of partitions.
var errStreamRecreated = errors.New("the stream TELEMETRY was recreated")

// process is what the partitions of one detector share.
type process struct {
	cfg Config
	// identity identifies this detector on the bus, also over reconnects.
	identity presence.Config
	// in receives telemetry and queries. Alerts and state have a session of their own, out,
	// so that they don't wait behind incoming telemetry.
	in, out   *bus.Session
	publisher *bus.Publisher
	state     *State
	metrics   *metrics
	log       *slog.Logger
}

// exportTimeout bounds how long a scrape waits for one partition. Past it the scrape
// shows the counts of the last snapshot.
const exportTimeout = 500 * time.Millisecond

// exportStats updates the metrics of all partitions that run here.
func (d *process) exportStats() {
	for _, p := range d.state.running() {
		ctx, cancel := context.WithTimeout(context.Background(), exportTimeout)
		if err := p.ask(ctx, (*loop).exportStats); err != nil {
			p.log.Debug("a scrape shows the counts of the last snapshot", "error", err)
		}
		cancel()
	}
}

// session returns the configuration of a session on the bus.
func (d *process) session(name string) bus.Config {
	c := d.cfg.Bus
	c.Name, c.Role, c.Logger = name, bus.RoleDetector, d.cfg.Logger
	return c
}

// runSession detects on one session, until ctx ends or a session is closed for good.
func (d *process) runSession(ctx context.Context, in *bus.Session) (err error) {
	d.in = in
	if d.out, err = bus.Connect(ctx, d.session("tocsin detector out")); err != nil {
		return err
	}
	defer d.out.Close()
	partitions := 1
	if d.cfg.Provision || d.cfg.Shared {
		err := d.await(ctx, d.state.setBlocked, func(ctx context.Context) error {
			partitions, err = d.prepare(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}
	if d.publisher, err = bus.NewPublisher(d.out, max(minPublishWindow, partitions*publishBatch)); err != nil {
		return err
	}
	d.state.setJoined(!d.cfg.Shared, partitions)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		select {
		case <-d.out.Closed():
			return d.out.Err()
		case <-ctx.Done():
			return nil
		}
	})
	// The detector is ready once it has caught up and answers queries.
	var missing atomic.Int32
	missing.Store(2)
	step := func() {
		if missing.Add(-1) == 0 {
			d.cfg.Ready()
		}
	}
	if d.cfg.Shared {
		group.Go(func() error { return d.serveQueries(ctx, partitions, step) })
		group.Go(func() error { return d.runPartitions(ctx, partitions, sync.OnceFunc(step)) })
		return group.Wait()
	}
	only := newPartition(d, 0, 1, nil)
	group.Go(func() error {
		abort, cancel := bus.WithGrace(ctx, flushTimeout)
		defer cancel()
		return only.run(ctx, abort, step)
	})
	group.Go(func() error {
		select {
		case <-only.started: // no other detector could answer before
			return d.serveQueries(ctx, partitions, step)
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// prepare creates the streams and returns the number of partitions.
func (d *process) prepare(ctx context.Context) (partitions int, err error) {
	if d.cfg.Provision {
		if err := bus.Provision(ctx, d.out, d.cfg.Layout, d.log); err != nil {
			return 0, err
		}
	}
	return d.out.Partitions(ctx)
}

// await calls try while both sessions reach the bus, until it succeeds. It passes each
// failure to blocked. See [bus.Session.Await] for its errors.
func (d *process) await(ctx context.Context, blocked func(error), try func(context.Context) error) error {
	return d.out.Await(ctx, bus.AwaitConfig{Timeout: prepareTimeout, Waiting: blocked, Logger: d.log}, func(ctx context.Context) error {
		if !d.in.Connected() {
			return bus.ErrUnreachable
		}
		return try(ctx)
	})
}
