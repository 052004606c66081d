package detector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/detector/eventring"
	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// partition is one part of the telemetry, or all of it, while it is folded here.
type partition struct {
	*process
	number, of int
	// tenure is the right to speak, nil where nobody else can have it.
	tenure   *tenure
	log      *slog.Logger
	loop     *loop // nil until begun is closed
	begun    chan struct{}
	slots    chan struct{} // taken while a query of another detector is answered
	progress progress
	// caughtUp is called when that is so for the first time.
	caughtUp func()
	store    snapshots
}

func newPartition(d *process, number, of int, t *tenure) *partition {
	p := &partition{process: d, number: number, of: of, tenure: t, log: d.log, begun: make(chan struct{}), slots: make(chan struct{}, maxAnswers)}
	if of > 1 {
		p.log = d.log.With("partition", number)
	}
	p.store = newSnapshots(d.out, number, of)
	return p
}

// Bounds of what one of several partitions remembers: the share that it has of
// what one alone may, but enough for an app of the largest size.
const (
	minFoldBytes   = 32 << 20
	minRecentBytes = 16 << 20
)

func (p *partition) newFold() *fold.Fold {
	if p.of == 1 {
		return fold.New(fold.Config{Rules: p.cfg.Rules})
	}
	return fold.New(fold.Config{
		Partition: fmt.Sprintf("%d/%d", p.number, p.of),
		MaxBytes:  max(fold.DefaultBytes/p.of, minFoldBytes),
		Rules:     p.cfg.Rules,
	})
}

func (p *partition) newRecent() *eventring.Store {
	return eventring.New(eventring.Config{MaxBytes: max(eventring.DefaultBytes/p.of, minRecentBytes)})
}

// run detects until ctx ends, then stores what was raised and saves the state; or
// until life ends, then at once, without another word. life outlives ctx.
func (p *partition) run(ctx, life context.Context, caughtUp func()) error {
	p.caughtUp = caughtUp
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(life, stop)()
	p.state.own(p)
	defer p.state.disown(p)
	p.metrics.owned.Inc()
	defer p.metrics.owned.Dec()
	var start *beginning
	err := p.untilReady(ctx, p.progress.waits, func(ctx context.Context) (err error) {
		start, err = p.prepare(ctx)
		return err
	})
	if err != nil || start == nil {
		return err
	}
	p.progress.because.Store(nil)
	l := newLoop(p, start)
	p.loop = l
	close(p.begun)

	// The loop outlives ctx to save its state; what feeds it does not.
	speaking, stopSpeaking := context.WithCancel(life)
	defer stopSpeaking()
	feeding, feedCtx := errgroup.WithContext(ctx)
	inputs := l.inputs // the loop lets go of it when it ends, maybe before the feed begins
	feeding.Go(func() error { return p.feed(feedCtx, start.at, inputs) })
	if p.tenure != nil {
		feeding.Go(func() error { return p.answerOwner(feedCtx) })
	}
	if p.of > 1 {
		feeding.Go(func() error { return p.watchLoss(feedCtx) })
	}
	if p.number == 0 {
		feeding.Go(func() error { return p.sweep(feedCtx) })
		if p.of > 1 {
			feeding.Go(func() error { return p.tick(feedCtx) })
		} else {
			feeding.Go(func() error { return p.tickWhileWaiting(feedCtx) })
		}
	}

	working, workCtx := errgroup.WithContext(speaking)
	working.Go(func() error {
		s := &speaker{
			publisher: p.publisher, may: p.tenure.wait, alerts: l.alerts, done: l.spoken,
			log: p.log, failures: p.metrics.publishFailures.Inc,
		}
		return s.run(workCtx)
	})
	working.Go(func() error { return p.keep(workCtx, l.snapshots, l.saved) })
	working.Go(func() error {
		defer stopSpeaking() // the loop ends last; then nothing is left to say
		return l.run(feedCtx, workCtx)
	})
	return errors.Join(feeding.Wait(), working.Wait())
}

// beginning is where a partition starts.
type beginning struct {
	fold *fold.Fold
	at   position
	// spoken are the ids of alerts that a replay raises again.
	spoken map[string]struct{}
	// first and newest are the first and last sequence of TELEMETRY that there were.
	first, newest uint64
	// lost counts messages that were dropped from the stream unread: of several
	// partitions, at most so many.
	lost uint64
	// caughtUp says that nothing is to be folded in yet.
	caughtUp bool
}

// prepare reads the state.
func (p *partition) prepare(ctx context.Context) (*beginning, error) {
	telemetry, err := lookAt(ctx, p.out, bus.StreamTelemetry)
	if err != nil {
		return nil, err
	}
	alerts, err := lookAt(ctx, p.out, bus.StreamAlerts)
	if err != nil {
		return nil, err
	}
	b := &beginning{fold: p.newFold()}
	at, err := p.store.load(ctx, b.fold.Restore)
	if errors.Is(err, errUnusable) {
		p.log.Warn("the state can't be used: folding all that is kept", "error", err)
		err = nil
	}
	if err != nil {
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
		p.logLost(b.lost)
	}
	b.at, b.first, b.newest, b.caughtUp = at, telemetry.first, telemetry.last, telemetry.first > telemetry.last || at.Telemetry >= telemetry.last
	if b.spoken, err = alreadySpoken(ctx, p.out, at.Alerts, alerts, p.log); err != nil {
		return nil, err
	}
	p.log.Info("detector starts", "after", at.Telemetry, "newest", telemetry.last, "alerts told since", len(b.spoken))
	return b, nil
}

// logLost says what was lost. One of several partitions sees only its own messages,
// and not which of those that are gone were among them.
func (p *partition) logLost(n uint64) {
	if p.of > 1 {
		p.log.Error("telemetry was dropped before it was read", "messages, of all partitions, at most", n)
		return
	}
	p.log.Error("telemetry was dropped before it was read", "messages", n)
}

// keep saves snapshots, each once all alerts that it knows of are stored.
func (p *partition) keep(ctx context.Context, snapshots <-chan snapshotJob, saved chan<- error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case job, ok := <-snapshots:
			if !ok {
				return nil
			}
			saving, cancel := context.WithTimeout(ctx, prepareTimeout)
			err := p.tenure.wait(saving)
			if err == nil {
				err = p.store.save(saving, job.at, job.state)
			}
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

const (
	// tickEvery is how often the first of several partitions tells the others the
	// time: a spike ends by the passing of time, which only messages tell, and the
	// apps of a partition may say nothing for long.
	tickEvery = 5 * time.Second
	// waitingEvery is how often the only partition writes the time while alerts wait
	// for it. While a spike is open it does so every tickEvery.
	waitingEvery = time.Second
	// ticksSaved are so many that the state is saved for them alone, so that its
	// position stays ahead of what the stream drops.
	ticksSaved = 12
	// sweepEvery is how often the first partition looks for what is left of snapshots
	// that nobody finished. It is longer than saving one may take.
	sweepEvery = 5 * time.Minute
	// lossEvery is how often a partition that is behind looks at what the stream
	// has dropped.
	lossEvery = time.Second
)

// tick writes the time into the log, from where every partition folds it in, and a
// replay does so too. Two at a time, as when the owner changes, do no harm.
func (p *partition) tick(ctx context.Context) error {
	every := time.NewTicker(tickEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		if !p.tenure.held() {
			continue
		}
		if _, err := p.publisher.Publish(ctx, tickMessage()); err != nil && ctx.Err() == nil {
			p.log.Debug("the time could not be told", "error", err)
		}
	}
}

// tickWhileWaiting writes the time into the log of the only partition while the fold
// waits for it: telemetry may have ended with a storm, or with the outage of what sent
// it. Alerts that are held back wait for each second, spikes for tickEvery.
func (p *partition) tickWhileWaiting(ctx context.Context) error {
	every := time.NewTicker(waitingEvery)
	defer every.Stop()
	last := time.Now()
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			return nil
		case now = <-every.C:
		}
		wanted := false
		if p.ask(ctx, func(l *loop) {
			wanted = l.fold.Waits() || now.Sub(last) >= tickEvery && l.fold.Unfinished()
		}) != nil || !wanted || !p.tenure.held() {
			continue
		}
		last = now
		if _, err := p.publisher.Publish(ctx, tickMessage()); err != nil && ctx.Err() == nil {
			p.log.Debug("the time could not be written; the next try follows", "error", err)
		}
	}
}

// watchLoss counts what the stream drops before one of several partitions reads it.
// Its own sequences have gaps, so the beginning of the stream is looked at while
// there is something to be read, and each time that reading begins anew.
func (p *partition) watchLoss(ctx context.Context) error {
	every := time.NewTicker(lossEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		wanted := false
		if p.ask(ctx, func(l *loop) { wanted = l.unread.suspect }) != nil || !wanted {
			continue
		}
		looking, cancel := context.WithTimeout(ctx, lossEvery)
		telemetry, err := lookAt(looking, p.out, bus.StreamTelemetry)
		cancel()
		if err != nil {
			continue // the next look finds it too
		}
		_ = p.ask(ctx, func(l *loop) { // an error is the end
			if telemetry.created.Equal(l.at.Created) {
				l.countLost(l.unread.look(telemetry.first))
			}
		})
	}
}

// sweep removes what is left of snapshots, of all partitions.
func (p *partition) sweep(ctx context.Context) error {
	every := time.NewTicker(sweepEvery)
	defer every.Stop()
	var left map[string]bool
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		if !p.tenure.held() {
			continue
		}
		sweeping, cancel := context.WithTimeout(ctx, prepareTimeout)
		found, err := p.store.sweep(sweeping, left)
		cancel()
		if left = found; err != nil && ctx.Err() == nil {
			p.log.Debug("what is left of snapshots could not be removed", "error", err)
		}
	}
}
