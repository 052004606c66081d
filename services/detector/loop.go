package detector

import (
	"context"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/recent"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Bounds of the loop.
const (
	// readAhead is how many decoded messages wait for the loop.
	readAhead = 64
	// flushTimeout is how long the end waits for alerts to be stored. What is
	// not stored by then is raised again by the next start.
	flushTimeout = 3 * time.Second
)

// loop owns all state of the detector: nothing else reads or writes it. Who
// wants to know something sends a question.
type loop struct {
	d      *detector
	fold   *fold.Fold
	recent *recent.Store
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

	// changed and bytes are what came since the last snapshot.
	changed bool
	bytes   int
	// job is a snapshot that waits for its alerts to be stored; saving says
	// that one is being written.
	job    *snapshotJob
	saving bool

	commands map[string]chan<- fold.Outcome
	behind   uint64
	caughtUp bool
	lost     uint64
	lastSeq  uint64
}

// question is something to be done between two messages, with the loop's state.
type question func(l *loop)

func newLoop(d *detector, b *beginning) *loop {
	return &loop{
		d: d, fold: b.fold, recent: recent.New(recent.Config{}), at: b.at, told: b.spoken, lost: b.lost,
		replayEnd:  b.newest,
		lastStored: b.at.Alerts,
		caughtUp:   b.caughtUp,
		inputs:     make(chan input, readAhead),
		questions:  make(chan question),
		alerts:     make(chan alert.Alert, speakAhead),
		spoken:     make(chan spoken),
		snapshots:  make(chan snapshotJob),
		saved:      make(chan error),
		commands:   map[string]chan<- fold.Outcome{},
	}
}

// run folds until feeding ends, then flushes and saves. working is the longer
// life of the speaker and the keeper of snapshots.
func (l *loop) run(feeding, working context.Context) error {
	l.d.metrics.lost.Add(float64(l.lost))
	if l.caughtUp {
		l.ready()
	}
	tick := time.NewTicker(l.d.cfg.SnapshotEvery)
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
			l.d.metrics.snapshotFailures.Inc()
			l.d.log.Warn("the state could not be saved; a start would fold more again", "error", err)
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
	if !in.renewed.IsZero() {
		l.at.Telemetry, l.at.Created, l.lastSeq = 0, in.renewed, 0
		l.replayEnd, l.told = 0, nil // what they were about is gone
		return
	}
	m := in.message
	l.behind = in.behind
	l.d.metrics.behind.Set(float64(l.behind))
	l.countLost(m.Seq)
	for i := range m.Events {
		l.recent.Add(&m.Events[i], m.Time, in.sender)
	}
	if m.Seq <= l.at.Telemetry {
		return // folded in before the snapshot; only remembered here
	}
	l.d.metrics.messages.Inc()
	l.d.metrics.events.Add(float64(len(m.Events)))
	if in.damaged != nil {
		l.d.metrics.undecodable.Inc()
		l.d.log.Warn("skipped", "error", in.damaged)
	}
	out := l.fold.Apply(m)
	l.at.Telemetry = m.Seq
	l.changed = true
	l.bytes += in.bytes
	l.raise(out.Alerts)
	if l.replayed() {
		l.told = nil
	}
	if reply, ok := l.commands[in.commandID]; ok {
		delete(l.commands, in.commandID)
		reply <- out // has room for one
	}
	if l.bytes >= snapshotBytes {
		l.snapshot()
	}
	if in.behind == 0 && !l.caughtUp {
		l.caughtUp = true
		l.ready()
	}
}

// replayed says that what is folded in from now on came after the start, so that
// no alert about it was told before.
func (l *loop) replayed() bool { return l.at.Telemetry >= l.replayEnd }

// heard notes what the bus has stored.
func (l *loop) heard(s spoken) {
	l.stored += s.count
	l.lastStored = max(l.lastStored, s.last)
}

func (l *loop) ready() {
	l.d.log.Info("detector is up to date", "sequence", l.at.Telemetry)
	if l.d.cfg.Ready != nil {
		l.d.cfg.Ready()
	}
}

// countLost counts what TELEMETRY dropped before it was read: its sequences
// have no gaps of their own.
func (l *loop) countLost(seq uint64) {
	if l.lastSeq > 0 && seq > l.lastSeq+1 {
		gap := seq - l.lastSeq - 1
		l.lost += gap
		l.d.metrics.lost.Add(float64(gap))
		l.d.log.Error("telemetry was dropped before it was read", "messages", gap)
	}
	l.lastSeq = seq
}

// raise hands alerts to the speaker, but those that were told before.
func (l *loop) raise(alerts []alert.Alert) {
	for _, a := range alerts {
		if _, ok := l.told[a.ID]; ok {
			delete(l.told, a.ID)
			continue
		}
		l.d.metrics.alerts.WithLabelValues(string(a.Category), string(a.Severity)).Inc()
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
		l.d.metrics.snapshotFailures.Inc()
		l.d.log.Error("the state could not be captured", "error", err)
		return
	}
	at := l.at
	// Before, an alert about telemetry still to be replayed may lie below one
	// that was stored just now.
	if l.replayed() {
		at.Alerts = l.lastStored
	}
	l.job = &snapshotJob{at: at, state: state, raised: l.raised}
	l.changed, l.bytes = false, 0
	l.d.metrics.snapshotBytes.Set(float64(len(state)))
}

// finish lets the speaker store what was raised and saves the state. What it
// can't finish in time, the next start does again.
func (l *loop) finish(working context.Context) error {
	ctx, cancel := context.WithTimeout(working, flushTimeout)
	defer cancel()
	l.inputs = nil
	l.snapshot()
	for len(l.waiting) > 0 || l.stored < l.raised || l.job != nil || l.saving {
		l.step(ctx.Done(), nil)
		if ctx.Err() != nil {
			l.d.log.Warn("not stored in time; the next start does it again", "alerts", l.raised-l.stored)
			return nil
		}
	}
	return nil
}
