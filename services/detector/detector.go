// Package detector turns telemetry into alerts.
//
// It is a fold over the stream TELEMETRY: package fold decides, this package
// feeds it in order, publishes what it says, and keeps its state. State is the
// newest snapshot plus the messages since. On a start those are folded again,
// and what ALERTS holds already is not told again; so the end of the process
// at any moment neither loses nor doubles an alert.
//
// Telemetry may be split into partitions by app, and each is such a fold of its
// own. On a bus with several detectors, package ownership decides which of them
// works on which.
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

	"github.com/tocsin-bus/tocsin/services/detector/rules"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
)

// Config says which bus to work on.
type Config struct {
	// Bus is how to join; Name and Role are filled in here.
	Bus bus.ConnConfig
	// Provision creates missing streams first: for an external bus, which
	// nobody else prepares.
	Provision bool
	// Layout is how those lie on its servers.
	Layout bus.Layout
	// Shared says that other detectors may be on the bus. Then each partition has
	// one owner, and another detector takes it over when that one ends. Without it
	// the stream has one partition and this is its only detector.
	Shared bool
	// SnapshotEvery is how often the state is saved while something changes;
	// 0 means DefaultSnapshotEvery. A start folds again what came since.
	SnapshotEvery time.Duration
	// Rules says by which rules each app is judged; the zero value by the
	// specification's.
	// Detectors that share a bus should have the same.
	Rules    rules.Table
	Registry prometheus.Registerer
	Logger   *slog.Logger
	// Ready is called once: when the detector has caught up with what it owns, or
	// stands by. It may be nil.
	Ready func()
	// State, where it is not nil, is told how the detector is.
	State *State
	// Version is that of the build, for who asks how the detector is.
	Version string
}

const (
	// DefaultSnapshotEvery is the default of Config.SnapshotEvery.
	DefaultSnapshotEvery = 10 * time.Second
	// speakWindow is how many alerts may wait for an acknowledgement: as many as
	// one partition has under way at once, for each of so many.
	speakWindow = 4 * speakTogether
	// prepareTimeout bounds one try to get ready on the bus.
	prepareTimeout = 30 * time.Second
	// prepareRetry is the pause after such a try.
	prepareRetry = 500 * time.Millisecond
)

// Run detects until ctx ends, then saves its state and returns nil. A bus that
// is away is waited for.
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
	d.metrics = newMetrics(cfg.Registry, d.count)
	d.state.judges(cfg.Rules)
	defer d.state.takesPart(false, 0)
	for {
		err := d.runOnce(ctx)
		if !errors.Is(err, errConnectionGone) && !errors.Is(err, errRenewed) {
			return err
		}
		d.log.Warn("detector starts again", "because", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(prepareRetry):
		}
	}
}

// errConnectionGone says that a connection was closed for good, as it is when
// the bus no longer knows our credentials: those of a new bus must be read.
var errConnectionGone = errors.New("the bus has closed the connection")

// errRenewed says that the stream of telemetry was made anew, so that what is known
// of its partitions has to be asked again.
var errRenewed = errors.New("the stream of telemetry was made anew")

// process is what the partitions of one detector share.
type process struct {
	cfg Config
	// who tells it from other detectors on the bus, also when it connects anew.
	who       presence.Config
	in, out   *bus.Conn
	publisher *bus.Publisher
	state     *State
	metrics   *metrics
	log       *slog.Logger
}

// countTimeout bounds how long a scrape waits for one partition, which then shows what
// it had counted before.
const countTimeout = 500 * time.Millisecond

// count has all partitions that are owned here counted.
func (d *process) count() {
	for _, p := range d.state.partitions() {
		ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
		if err := p.ask(ctx, (*loop).count); err != nil {
			p.log.Debug("the counts for a scrape are those of the last snapshot", "error", err)
		}
		cancel()
	}
}

func (d *process) runOnce(ctx context.Context) (err error) {
	if d.in, err = d.connect(ctx, "tocsin detector in"); err != nil {
		return err
	}
	defer d.in.Close()
	// Alerts go out on a connection of their own: they must not wait behind
	// telemetry that comes in.
	if d.out, err = d.connect(ctx, "tocsin detector out"); err != nil {
		return err
	}
	defer d.out.Close()
	of := 1
	if d.cfg.Provision || d.cfg.Shared {
		err := d.untilReady(ctx, d.state.waits, func(ctx context.Context) error {
			of, err = d.prepare(ctx)
			return err
		})
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
	if d.publisher, err = bus.NewPublisher(d.out, max(speakWindow, of*speakTogether)); err != nil {
		return err
	}
	d.state.takesPart(!d.cfg.Shared, of)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.watch(ctx) })
	// Ready is who has caught up and answers.
	var missing atomic.Int32
	missing.Store(2)
	step := func() {
		if missing.Add(-1) == 0 {
			d.cfg.Ready()
		}
	}
	if d.cfg.Shared {
		group.Go(func() error { return d.answer(ctx, of, step) })
		group.Go(func() error { return d.share(ctx, of, sync.OnceFunc(step)) })
		return group.Wait()
	}
	alone := newPartition(d, 0, 1, nil)
	group.Go(func() error { return alone.run(ctx, context.WithoutCancel(ctx), step) })
	group.Go(func() error {
		select {
		case <-alone.begun: // nobody else could answer before
			return d.answer(ctx, of, step)
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

// gone is nil, or wraps errConnectionGone where a connection is closed for good.
func (d *process) gone() error {
	for _, c := range []*bus.Conn{d.in, d.out} {
		if !c.NC.IsClosed() {
			continue
		}
		err := errConnectionGone
		if why := c.Why(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		d.state.waits(err)
		return err
	}
	return nil
}

// watch fails once a connection is gone for good.
func (d *process) watch(ctx context.Context) error {
	for {
		if err := d.gone(); err != nil {
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

// prepare makes the streams and says into how many partitions telemetry is split.
func (d *process) prepare(ctx context.Context) (of int, err error) {
	if d.cfg.Provision {
		if err := bus.Provision(ctx, d.out, d.cfg.Layout, d.log); err != nil {
			return 0, err
		}
	}
	return d.out.Partitions(ctx)
}

// untilReady tries something that needs the bus until it succeeds or ctx ends,
// with nil for both. Its error is errConnectionGone, or says what trying again
// will not mend. It calls waits with what stands in the way, and logs that once.
func (d *process) untilReady(ctx context.Context, waits func(error), try func(context.Context) error) error {
	var told string
	for {
		if err := d.gone(); err != nil {
			return err
		}
		err := bus.ErrAway
		if d.in.Connected() && d.out.Connected() {
			tryCtx, cancel := context.WithTimeout(ctx, prepareTimeout)
			err = try(tryCtx)
			cancel()
		} else if why := d.out.Why(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		if err == nil || errors.Is(err, bus.ErrIncompatible) {
			return err
		}
		if ctx.Err() == nil {
			waits(err)
			if text := err.Error(); text != told {
				told = text
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
