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
	"fmt"
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
	Bus bus.ConnConfig
	// Provision creates missing streams first. It is for an external bus.
	Provision bool
	// Layout is the layout of the streams that Provision creates.
	Layout bus.Layout
	// Shared is set if other detectors may be on the bus. Then each partition has one
	// owner, and another detector takes it over when the owner ends. If it is not set,
	// the stream has one partition and this is its only detector.
	Shared bool
	// SnapshotEvery is how often a changed state is saved; 0 means
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
	// prepareTimeout bounds one attempt to prepare on the bus.
	prepareTimeout = 30 * time.Second
	// prepareRetry is the pause after a failed attempt.
	prepareRetry = 500 * time.Millisecond
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
	d := &process{cfg: cfg, who: presence.Identify("detector", cfg.Version, log), state: cfg.State, log: log}
	d.metrics = newMetrics(cfg.Registry, d.exportStats)
	d.state.setRules(cfg.Rules)
	defer d.state.setJoined(false, 0)
	for {
		err := d.runOnce(ctx)
		if !errors.Is(err, errConnectionClosed) && !errors.Is(err, errStreamRecreated) {
			return err
		}
		d.log.Warn("restarting the detector", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(prepareRetry):
		}
	}
}

// errConnectionClosed means that a connection was closed for good. That happens if the
// bus no longer accepts our credentials: those of a new bus must be read.
var errConnectionClosed = errors.New("the bus has closed the connection")

// errStreamRecreated means that the stream TELEMETRY was recreated, perhaps with another
// number of partitions.
var errStreamRecreated = errors.New("the stream TELEMETRY was recreated")

// process is what the partitions of one detector share.
type process struct {
	cfg Config
	// who identifies this detector on the bus, also over reconnects.
	who       presence.Config
	in, out   *bus.Conn
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

func (d *process) runOnce(ctx context.Context) (err error) {
	if d.in, err = d.connect(ctx, "tocsin detector in"); err != nil {
		return err
	}
	defer d.in.Close()
	// Alerts have a connection of their own, so that they don't wait behind incoming
	// telemetry.
	if d.out, err = d.connect(ctx, "tocsin detector out"); err != nil {
		return err
	}
	defer d.out.Close()
	partitions := 1
	if d.cfg.Provision || d.cfg.Shared {
		err := d.retryUntilReady(ctx, d.state.setBlocked, func(ctx context.Context) error {
			partitions, err = d.prepare(ctx)
			return err
		})
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
	if d.publisher, err = bus.NewPublisher(d.out, max(minPublishWindow, partitions*publishBatch)); err != nil {
		return err
	}
	d.state.setJoined(!d.cfg.Shared, partitions)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.watchConnections(ctx) })
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
	group.Go(func() error { return only.run(ctx, context.WithoutCancel(ctx), step) })
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

func (d *process) connect(ctx context.Context, name string) (*bus.Conn, error) {
	c := d.cfg.Bus
	c.Name, c.Role, c.Logger = name, bus.RoleDetector, d.cfg.Logger
	return bus.Connect(ctx, c)
}

// checkClosed returns an error that wraps errConnectionClosed if a connection is closed
// for good.
func (d *process) checkClosed() error {
	for _, c := range []*bus.Conn{d.in, d.out} {
		if !c.NC.IsClosed() {
			continue
		}
		err := errConnectionClosed
		if why := c.Why(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		d.state.setBlocked(err)
		return err
	}
	return nil
}

// watchConnections returns an error once a connection is closed for good.
func (d *process) watchConnections(ctx context.Context) error {
	for {
		if err := d.checkClosed(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.in.Changes():
		case <-d.out.Changes():
		}
	}
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

// retryUntilReady calls try until it succeeds or ctx ends, and returns nil for both. It
// passes each failure to blocked and logs it once. It returns errConnectionClosed, or an
// error that a retry cannot fix.
func (d *process) retryUntilReady(ctx context.Context, blocked func(error), try func(context.Context) error) error {
	var logged string
	for {
		if err := d.checkClosed(); err != nil {
			return err
		}
		err := bus.ErrAway
		if d.in.Connected() && d.out.Connected() {
			trying, cancel := context.WithTimeout(ctx, prepareTimeout)
			err = try(trying)
			cancel()
		} else if why := d.out.Why(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		if err == nil || errors.Is(err, bus.ErrIncompatible) {
			return err
		}
		if ctx.Err() == nil {
			blocked(err)
			if text := err.Error(); text != logged {
				logged = text
				d.log.Warn("waiting for the bus", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.in.Changes():
		case <-time.After(prepareRetry):
		}
	}
}
