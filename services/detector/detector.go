// Package detector turns telemetry into alerts.
//
// It is a fold over the stream TELEMETRY: package fold decides, this package
// feeds it in order, publishes what it says, and keeps its state. State is the
// newest snapshot plus the messages since. On a start those are folded again,
// and what ALERTS holds already is not told again; so the end of the process
// at any moment neither loses nor doubles an alert.
package detector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/bus"
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
	// SnapshotEvery is how often the state is saved while something changes;
	// 0 means DefaultSnapshotEvery. A start folds again what came since.
	SnapshotEvery time.Duration
	Registry      prometheus.Registerer
	Logger        *slog.Logger
	// Ready is called once the detector has caught up. It may be nil.
	Ready func()
}

const (
	// DefaultSnapshotEvery is the default of Config.SnapshotEvery.
	DefaultSnapshotEvery = 10 * time.Second
	// snapshotBytes of telemetry call for a snapshot before its time, so that
	// what came since never nears what TELEMETRY keeps (256 MiB).
	snapshotBytes = 32 << 20
	// speakWindow is how many alerts may wait for an acknowledgement.
	speakWindow = 256
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
	metrics := newMetrics(cfg.Registry)
	for {
		err := runOnce(ctx, cfg, metrics)
		if !errors.Is(err, errConnectionGone) {
			return err
		}
		cfg.Logger.Warn("detector starts again", "because", err)
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

func runOnce(ctx context.Context, cfg Config, metrics *metrics) error {
	log := cfg.Logger.With("component", "detector")
	in, err := connect(ctx, cfg, "tocsin detector in")
	if err != nil {
		return err
	}
	defer in.Close()
	// Alerts go out on a connection of their own: they must not wait behind
	// telemetry that comes in.
	out, err := connect(ctx, cfg, "tocsin detector out")
	if err != nil {
		return err
	}
	defer out.Close()
	publisher, err := bus.NewPublisher(out, speakWindow)
	if err != nil {
		return err
	}
	d := &detector{cfg: cfg, in: in, out: out, publisher: publisher, metrics: metrics, log: log}
	return d.run(ctx)
}

func connect(ctx context.Context, cfg Config, name string) (*bus.Conn, error) {
	c := cfg.Bus
	c.Name, c.Role, c.Logger = name, bus.RoleDetector, cfg.Logger
	return bus.Connect(ctx, c)
}

type detector struct {
	cfg       Config
	in, out   *bus.Conn
	publisher *bus.Publisher
	metrics   *metrics
	log       *slog.Logger
}

func (d *detector) run(ctx context.Context) error {
	start, err := d.prepare(ctx)
	if err != nil || start == nil {
		return err
	}
	l := newLoop(d, start)

	// The loop outlives ctx to save its state; what feeds it does not.
	speaking, stopSpeaking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSpeaking()
	feeding, feedCtx := errgroup.WithContext(ctx)
	inputs := l.inputs // the loop lets go of it when it ends, maybe before the feed begins
	feeding.Go(func() error { return d.feed(feedCtx, start.at, inputs) })
	feeding.Go(func() error { return d.answer(feedCtx, l) })
	feeding.Go(func() error { return d.watch(feedCtx) })

	working, workCtx := errgroup.WithContext(speaking)
	working.Go(func() error {
		s := &speaker{publisher: d.publisher, alerts: l.alerts, done: l.spoken, log: d.log, failures: d.metrics.publishFailures.Inc}
		return s.run(workCtx)
	})
	working.Go(func() error { return d.keep(workCtx, l.snapshots, l.saved) })
	working.Go(func() error {
		defer stopSpeaking() // the loop ends last; then nothing is left to say
		return l.run(feedCtx, workCtx)
	})
	return errors.Join(feeding.Wait(), working.Wait())
}

// watch fails once a connection is gone for good.
func (d *detector) watch(ctx context.Context) error {
	for {
		if d.in.NC.IsClosed() || d.out.NC.IsClosed() {
			return errConnectionGone
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.in.Changes():
		case <-d.out.Changes():
		}
	}
}

// beginning is where a detector starts.
type beginning struct {
	fold *fold.Fold
	at   position
	// spoken are the ids of alerts that a replay raises again.
	spoken map[string]struct{}
	// newest is the last sequence of TELEMETRY there was.
	newest uint64
	// lost counts messages that were dropped from the stream unread.
	lost uint64
	// caughtUp says that nothing is to be folded in yet.
	caughtUp bool
}

// prepare waits for the bus and reads the state. It returns nil when ctx ends.
func (d *detector) prepare(ctx context.Context) (*beginning, error) {
	for {
		if d.in.NC.IsClosed() || d.out.NC.IsClosed() {
			return nil, errConnectionGone
		}
		tryCtx, cancel := context.WithTimeout(ctx, prepareTimeout)
		b, err := d.tryPrepare(tryCtx)
		cancel()
		if err == nil {
			return b, nil
		}
		if errors.Is(err, bus.ErrIncompatible) {
			return nil, err
		}
		if ctx.Err() == nil {
			d.log.Info("waiting for the bus", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-d.in.Changes():
		case <-time.After(prepareRetry):
		}
	}
}

func (d *detector) tryPrepare(ctx context.Context) (*beginning, error) {
	if !d.in.Connected() || !d.out.Connected() {
		return nil, bus.ErrAway
	}
	if d.cfg.Provision {
		if err := bus.Provision(ctx, d.out, d.cfg.Layout, d.log); err != nil {
			return nil, err
		}
	}
	telemetry, err := lookAt(ctx, d.out, bus.StreamTelemetry)
	if err != nil {
		return nil, err
	}
	alerts, err := lookAt(ctx, d.out, bus.StreamAlerts)
	if err != nil {
		return nil, err
	}
	b := &beginning{fold: fold.New(fold.Config{})}
	at, state, err := loadSnapshot(ctx, d.out)
	if err == nil && state != nil {
		if err = b.fold.Restore(state); err != nil {
			err = fmt.Errorf("%w: %w", errUnusable, err)
		}
	}
	switch {
	case errors.Is(err, errUnusable):
		d.log.Warn("the state can't be used: folding all that is kept", "error", err)
		b.fold, at = fold.New(fold.Config{}), position{}
	case err != nil:
		return nil, err
	}
	if !at.Created.Equal(telemetry.created) { // no snapshot, or the stream was made anew
		at.Telemetry, at.Created = 0, telemetry.created
	}
	if !at.AlertsCreated.Equal(alerts.created) {
		at.Alerts, at.AlertsCreated = 0, alerts.created
	}
	if at.Telemetry > 0 && telemetry.first > at.Telemetry+1 {
		b.lost = telemetry.first - at.Telemetry - 1
		d.log.Error("telemetry was dropped before it was read", "messages", b.lost)
	}
	b.at, b.newest, b.caughtUp = at, telemetry.last, telemetry.first > telemetry.last || at.Telemetry >= telemetry.last
	if b.spoken, err = alreadySpoken(ctx, d.out, at.Alerts, alerts, d.log); err != nil {
		return nil, err
	}
	d.log.Info("detector starts", "after", at.Telemetry, "newest", telemetry.last, "alerts told since", len(b.spoken))
	return b, nil
}

// keep saves snapshots, each once all alerts that it knows of are stored.
func (d *detector) keep(ctx context.Context, snapshots <-chan snapshotJob, saved chan<- error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case job, ok := <-snapshots:
			if !ok {
				return nil
			}
			saving, cancel := context.WithTimeout(ctx, prepareTimeout)
			err := saveSnapshot(saving, d.out, job.at, job.state)
			cancel()
			select {
			case saved <- err:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// snapshotJob is a snapshot that waits to be saved.
type snapshotJob struct {
	at    position
	state []byte
	// raised is how many alerts must be stored before it may be saved.
	raised int
}
