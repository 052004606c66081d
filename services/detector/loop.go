package detector

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/detector/eventring"
	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// Bounds of the loop.
const (
	// snapshotBytes of telemetry call for a snapshot before its time, so that
	// what came since never nears what TELEMETRY keeps (256 MiB).
	snapshotBytes = 32 << 20
	// readAhead is how many decoded messages wait for the loop.
	readAhead = 64
	// flushTimeout is how long the end waits for alerts to be stored. What is
	// not stored by then is raised again by the next start.
	flushTimeout = 3 * time.Second
)

// loop owns all state of a partition: nothing else reads or writes it. Who wants
// to know something sends a question.
type loop struct {
	p      *partition
	fold   *fold.Fold
	recent *eventring.Store
	// at is what has been folded in; but for its Alerts, which stay as they were
	// at the start. told are the ids that the replay raises again, nil once it
	// has passed replayEnd, the newest sequence of TELEMETRY at the start.
	at        position
	told      map[string]struct{}
	replayEnd uint64

	inputs    chan input
	questions chan question
	alerts    chan alert.Alert
	spoken    chan spoken
	snapshots chan snapshotJob
	saved     chan error

	// waiting are alerts that the speaker has no room for yet. While there are
	// any, no more telemetry is read.
	waiting []alert.Alert
	// raised counts alerts handed on, stored those that the bus has.
	raised, stored int
	// lastStored is the highest sequence of ALERTS that is known to be ours.
	lastStored uint64

	// changed, bytes and ticks are what came since the last snapshot: whether
	// anything but ticks did, how much, and how many of those.
	changed bool
	bytes   int
	ticks   int
	// job is a snapshot that waits for its alerts to be stored; saving says
	// that one is being written.
	job    *snapshotJob
	saving bool

	// outcomes are those of the newest commands; waiting for them, or for anything
	// else up to a place in the log, are waiters.
	outcomes outcomes
	waiters  map[chan struct{}]uint64
	behind   uint64
	gauge    prometheus.Gauge // tells behind
	caughtUp bool
	lost     uint64
	// counted is what the fold had counted when that was told.
	counted fold.Stats
	// recalled is closed once what was folded in before the start is remembered again,
	// as far as it is read; that is so from the message recallEnd on.
	recalled  chan struct{}
	recallEnd uint64
	// lastSeq is what was read last, of the only partition; unread is for one of
	// several.
	lastSeq uint64
	unread  unread
}

// question is something to be done between two messages, with the loop's state.
type question func(l *loop)

func newLoop(p *partition, b *beginning) *loop {
	return &loop{
		p: p, fold: b.fold, recent: p.newRecent(), at: b.at, told: b.spoken, lost: b.lost,
		replayEnd:  b.newest,
		lastStored: b.at.Alerts,
		caughtUp:   b.caughtUp,
		inputs:     make(chan input, readAhead),
		questions:  make(chan question),
		alerts:     make(chan alert.Alert, speakAhead),
		spoken:     make(chan spoken),
		snapshots:  make(chan snapshotJob),
		saved:      make(chan error),
		waiters:    map[chan struct{}]uint64{},
		recalled:   make(chan struct{}),
		recallEnd:  b.at.Telemetry,
		gauge:      p.metrics.behindOf(p.number),
		unread:     unread{last: b.at.Telemetry, counted: b.first - min(b.first, 1)},
	}
}

// run folds until feeding ends, then flushes and saves. working is the longer
// life of the speaker and the keeper of snapshots.
func (l *loop) run(feeding, working context.Context) error {
	l.p.metrics.lost.Add(float64(l.lost))
	l.p.progress.lost.Store(l.lost)
	l.p.progress.notTracked.Store(int64(l.fold.NotTracked()))
	if l.caughtUp {
		l.ready()
	}
	tick := time.NewTicker(l.p.cfg.SnapshotEvery)
	defer tick.Stop()
	for {
		select {
		case <-feeding.Done():
			return l.finish(working)
		default:
		}
		l.step(feeding.Done(), tick.C)
	}
}

// step does one thing. While alerts wait for the speaker no telemetry is taken,
// which would make more of them. A snapshot waits until its alerts are stored
// and the one before it is written; a newer one may take its place meanwhile.
func (l *loop) step(done <-chan struct{}, tick <-chan time.Time) {
	inputs := l.inputs
	var alerts chan alert.Alert
	var next alert.Alert
	if len(l.waiting) > 0 {
		inputs, alerts, next = nil, l.alerts, l.waiting[0]
	}
	var snapshots chan snapshotJob
	var job snapshotJob
	if l.job != nil && !l.saving && l.stored >= l.job.raised {
		snapshots, job = l.snapshots, *l.job
	}
	select {
	case in := <-inputs:
		l.take(in)
	case alerts <- next:
		l.waiting = l.waiting[1:]
	case s := <-l.spoken:
		l.heard(s)
	case snapshots <- job:
		l.job, l.saving = nil, true
	case err := <-l.saved:
		l.saving = false
		if err != nil {
			l.p.metrics.snapshotFailures.Inc()
			l.p.log.Warn("the state could not be saved; a start would fold more again", "error", err)
			l.changed = true
		}
	case q := <-l.questions:
		q(l)
	case <-tick:
		l.snapshot()
	case <-done:
	}
}

// take folds one message in.
func (l *loop) take(in input) {
	switch {
	case !in.renewed.IsZero():
		l.at.Telemetry, l.at.Created, l.lastSeq, l.unread = 0, in.renewed, 0, unread{}
		l.replayEnd, l.told = 0, nil // what they were about is gone
		return
	case in.began:
		l.unread.began()
		l.reached(in.behind)
		return
	}
	m := in.message
	if l.p.of > 1 {
		l.unread.read(m.Seq, in.behind)
	} else {
		l.countGap(m.Seq)
	}
	if m.Seq > l.at.Telemetry { // else folded in before the snapshot; only remembered here
		l.apply(in)
	}
	for i := range m.Events {
		if e := &m.Events[i]; l.fold.Tracks(e.App) {
			l.recent.AddAt(query.EventPosition{Seq: m.Seq, Index: i}, e, m.Time, in.sender)
		}
	}
	if m.Seq >= l.recallEnd {
		l.recall()
	}
	l.reached(in.behind)
	if l.bytes >= snapshotBytes {
		l.snapshot()
	}
}

// apply folds in what is not in the state yet.
func (l *loop) apply(in input) {
	m := in.message
	l.p.metrics.messages.Inc()
	l.p.metrics.events.Add(float64(len(m.Events)))
	if in.damaged != nil {
		l.p.metrics.undecodable.Inc()
		l.p.log.Warn("skipped", "error", in.damaged)
	}
	out := l.fold.Apply(m)
	l.at.Telemetry = m.Seq
	l.bytes += in.bytes
	if in.tick {
		l.ticks++
	}
	l.changed = l.changed || !in.tick || len(out.Alerts) > 0 || l.ticks >= ticksSaved
	l.raise(out.Alerts)
	for _, app := range out.Forgotten {
		l.recent.Forget(app)
	}
	l.p.progress.notTracked.Store(int64(l.fold.NotTracked()))
	if out.Noise != nil {
		l.outcomes.add(in.commandID, *out.Noise)
	}
	for waiter, seq := range l.waiters {
		if seq <= l.at.Telemetry {
			delete(l.waiters, waiter)
			close(waiter)
		}
	}
}

// reached notes how many messages come after those that were taken.
func (l *loop) reached(behind uint64) {
	l.behind = behind
	l.p.progress.behind.Store(behind)
	l.gauge.Set(float64(behind))
	if behind == 0 {
		l.recall()
	}
	if behind == 0 && !l.caughtUp {
		l.caughtUp = true
		l.ready()
	}
	if l.replayed() {
		l.told = nil
	}
}

// recall notes that there is no more to be remembered.
func (l *loop) recall() {
	select {
	case <-l.recalled:
	default:
		close(l.recalled)
	}
}

// replayed says that what is folded in from now on came after the start, so that
// no alert about it was told before.
func (l *loop) replayed() bool { return l.at.Telemetry >= l.replayEnd || l.caughtUp }

// heard notes what the bus has stored.
func (l *loop) heard(s spoken) {
	l.stored += s.count
	l.lastStored = max(l.lastStored, s.last)
}

func (l *loop) ready() {
	l.p.log.Info("detector is up to date", "sequence", l.at.Telemetry)
	l.p.progress.caughtUp.Store(true)
	if l.p.caughtUp != nil {
		l.p.caughtUp()
	}
}

// countGap counts what TELEMETRY dropped before it was read: its sequences have no
// gaps of their own.
func (l *loop) countGap(seq uint64) {
	if l.lastSeq > 0 && seq > l.lastSeq+1 {
		l.countLost(seq - l.lastSeq - 1)
	}
	l.lastSeq = seq
}

func (l *loop) countLost(n uint64) {
	if n == 0 {
		return
	}
	l.lost += n
	l.p.progress.lost.Store(l.lost)
	l.p.metrics.lost.Add(float64(n))
	l.p.logLost(n)
}

// raise hands alerts to the speaker, but those that were told before.
func (l *loop) raise(alerts []alert.Alert) {
	for _, a := range alerts {
		if _, ok := l.told[a.ID]; ok {
			delete(l.told, a.ID)
			continue
		}
		l.p.metrics.alerts.WithLabelValues(string(a.Category), string(a.Severity)).Inc()
		l.waiting = append(l.waiting, a)
		l.raised++
	}
}

// snapshot captures the state, to be saved once its alerts are stored. A newer
// one takes the place of one that still waits.
func (l *loop) snapshot() {
	if !l.changed {
		return
	}
	state, err := l.fold.Snapshot()
	if err != nil {
		l.p.metrics.snapshotFailures.Inc()
		l.p.log.Error("the state could not be captured", "error", err)
		return
	}
	at := l.at
	// Before, an alert about telemetry still to be replayed may lie below one
	// that was stored just now.
	if l.replayed() {
		at.Alerts = l.lastStored
	}
	l.job = &snapshotJob{at: at, state: state, raised: l.raised}
	l.changed, l.bytes, l.ticks = false, 0, 0
	l.p.metrics.snapshotBytesOf(l.p.number).Set(float64(len(state)))
	l.count()
}

// count adds to the metrics what the fold counted since the last time.
func (l *loop) count() {
	now := l.fold.Stats()
	l.p.metrics.tally.add(l.counted, now)
	l.p.metrics.tally.bytes.WithLabelValues(strconv.Itoa(l.p.number)).Set(float64(now.Bytes))
	l.p.metrics.tally.strangers.WithLabelValues(strconv.Itoa(l.p.number)).Set(float64(now.NotTracked))
	l.counted = now
}

// finish lets the speaker store what was raised and saves the state. What it
// can't finish in time, the next start does again.
func (l *loop) finish(working context.Context) error {
	ctx, cancel := context.WithTimeout(working, flushTimeout)
	defer cancel()
	l.inputs = nil
	l.changed = l.changed || l.ticks > 0
	l.snapshot()
	for len(l.waiting) > 0 || l.stored < l.raised || l.job != nil || l.saving {
		l.step(ctx.Done(), nil)
		if working.Err() != nil {
			return nil // somebody else goes on from the snapshot before
		}
		if ctx.Err() != nil {
			l.p.log.Warn("not stored in time; the next start does it again", "alerts", l.raised-l.stored)
			return nil
		}
	}
	return nil
}

// maxOutcomes is how many outcomes of commands are remembered, for whoever asks
// after the command was folded in. Past it, the oldest is forgotten.
const maxOutcomes = 64

// outcomes are what became of the newest noise commands, by their ids.
type outcomes struct {
	reports map[string]noise.Report
	order   []string
}

func (o *outcomes) add(id string, r noise.Report) {
	if o.reports == nil {
		o.reports = map[string]noise.Report{}
	}
	if len(o.order) == maxOutcomes {
		delete(o.reports, o.order[0])
		o.order = o.order[1:]
	}
	o.reports[id] = r
	o.order = append(o.order, id)
}
