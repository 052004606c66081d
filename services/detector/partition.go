package detector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/detector/eventring"
	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// partition is one of the parts into which telemetry is split by app, or all of it,
// while this detector works on it.
type partition struct {
	*process
	number, total int
	lease         *partitionLease // nil if no other detector can own the partition
	log           *slog.Logger
	loop          *loop         // set before started is closed
	started       chan struct{} // closed once the state is read
	querySlots    chan struct{} // bounds the queries of other detectors in progress
	progress      progress
	onCaughtUp    func() // called once
	store         snapshotStore
}

func newPartition(d *process, number, total int, lease *partitionLease) *partition {
	p := &partition{
		process: d, number: number, total: total, lease: lease, log: d.log,
		started: make(chan struct{}), querySlots: make(chan struct{}, maxQueries),
	}
	if total > 1 {
		p.log = d.log.With("partition", number)
	}
	p.store = newSnapshotStore(d.out, number, total)
	return p
}

func (p *partition) isStarted() bool {
	select {
	case <-p.started:
		return true
	default:
		return false
	}
}

// Lower bounds of the memory of one of several partitions: enough for an app of the
// largest size. Above them each partition has an equal part.
const (
	minFoldBytes = 32 << 20
	minRingBytes = 16 << 20
)

func (p *partition) newFold() *fold.Fold {
	if p.total == 1 {
		return fold.New(fold.Config{Rules: p.cfg.Rules})
	}
	return fold.New(fold.Config{
		Partition: fmt.Sprintf("%d/%d", p.number, p.total),
		MaxBytes:  max(fold.DefaultBytes/p.total, minFoldBytes),
		Rules:     p.cfg.Rules,
	})
}

func (p *partition) newRing() *eventring.Store {
	return eventring.New(eventring.Config{MaxBytes: max(eventring.DefaultBytes/p.total, minRingBytes)})
}

// run works on the partition until ctx ends, then stores the raised alerts and saves the
// state. When abort ends, which is later than ctx ([bus.WithGrace]), it stops at once and
// writes nothing more.
func (p *partition) run(ctx, abort context.Context, onCaughtUp func()) error {
	p.onCaughtUp = onCaughtUp
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(abort, stop)()
	p.state.add(p)
	defer p.state.remove(p)
	p.metrics.owned.Inc()
	defer p.metrics.owned.Dec()
	var start *startState
	err := p.await(ctx, p.progress.setBlocked, func(ctx context.Context) (err error) {
		start, err = p.readState(ctx)
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	p.progress.blocked.Store(nil)
	l := newLoop(p, start)
	p.loop = l
	close(p.started)

	// The loop outlives ctx to flush alerts and save its state; the reader does not.
	working, stopWorking := context.WithCancel(abort)
	defer stopWorking()
	readers, reading := errgroup.WithContext(ctx)
	inputs := l.inputs // finish sets l.inputs to nil, perhaps before the reader starts
	readers.Go(func() error { return p.readTelemetry(reading, start.position, inputs) })
	if p.lease != nil {
		readers.Go(func() error { return p.serveOwnerQueries(reading) })
	}
	if p.total > 1 {
		readers.Go(func() error { return p.watchLoss(reading) })
	}
	if p.number == 0 {
		readers.Go(func() error { return p.sweepSnapshots(reading) })
		if p.total > 1 {
			readers.Go(func() error { return p.tick(reading) })
		} else {
			readers.Go(func() error { return p.tickWhileWaiting(reading) })
		}
	}

	writers, writing := errgroup.WithContext(working)
	writers.Go(func() error {
		publisher := &alertPublisher{
			publisher: p.publisher, waitForLease: p.lease.wait, alerts: l.alerts, acks: l.acks,
			log: p.log, countFailure: p.metrics.publishFailures.Inc,
		}
		return publisher.run(writing)
	})
	writers.Go(func() error { return p.saveSnapshots(writing, l.snapshots, l.saved) })
	writers.Go(func() error {
		defer stopWorking() // the loop ends last: the other two have nothing left to write
		return l.run(reading, writing)
	})
	return errors.Join(readers.Wait(), writers.Wait())
}

// startState is what a partition starts from.
type startState struct {
	fold     *fold.Fold
	position snapshotPosition
	// replayed are the ids of alerts that the replay raises again.
	replayed map[string]struct{}
	// first and newest are the first and the last sequence of TELEMETRY.
	first, newest uint64
	// lost counts messages that the stream dropped before they were read. For one of
	// several partitions it is an upper bound.
	lost uint64
	// caughtUp is set if there is nothing to fold yet.
	caughtUp bool
}

// readState reads the newest snapshot and what is needed to replay from it.
func (p *partition) readState(ctx context.Context) (*startState, error) {
	telemetry, err := p.out.State(ctx, bus.StreamTelemetry)
	if err != nil {
		return nil, err
	}
	alerts, err := p.out.State(ctx, bus.StreamAlerts)
	if err != nil {
		return nil, err
	}
	s := &startState{fold: p.newFold()}
	position, err := p.store.load(ctx, s.fold.Restore)
	if errors.Is(err, errUnusable) {
		p.log.Warn("the snapshot cannot be used; replaying all stored telemetry", "error", err)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	if !position.Created.Equal(telemetry.Created) { // no snapshot, or the stream was recreated
		position.Telemetry, position.Created = 0, telemetry.Created
	}
	if !position.AlertsCreated.Equal(alerts.Created) {
		position.Alerts, position.AlertsCreated = 0, alerts.Created
	}
	if position.Telemetry > 0 && telemetry.First > position.Telemetry+1 {
		s.lost = telemetry.First - position.Telemetry - 1
		p.logLost(s.lost)
	}
	s.position, s.first, s.newest = position, telemetry.First, telemetry.Last
	s.caughtUp = telemetry.First > telemetry.Last || position.Telemetry >= telemetry.Last
	if s.replayed, err = publishedSince(ctx, p.out, bus.Position{Seq: position.Alerts, Created: position.AlertsCreated}, p.log); err != nil {
		return nil, err
	}
	p.log.Info("detector starts", "after", position.Telemetry, "newest", telemetry.Last, "published_alerts", len(s.replayed))
	return s, nil
}
