package detector

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/detector/eventring"
	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// Bounds of the loop.
const (
	// snapshotBytes of telemetry cause a snapshot before its time, so that the messages
	// since the last one stay far below what TELEMETRY keeps (256 MiB).
	snapshotBytes = 32 << 20
	// readAhead is how many decoded messages wait for the loop.
	readAhead = 64
	// flushTimeout is how long shutdown waits for alerts to be stored. The next start
	// raises again what was not stored.
	flushTimeout = 3 * time.Second
)

// loop owns the state of a partition. Nothing else reads or writes it: other goroutines
// send a [question].
type loop struct {
	p    *partition
	fold *fold.Fold
	ring *eventring.Store
	// position is what has been folded. Its Alerts part does not change.
	position snapshotPosition
	// replayed are the ids of the alerts that the replay raises again; nil once the
	// replay has passed replayEnd, the newest sequence of TELEMETRY at the start.
	replayed  map[string]struct{}
	replayEnd uint64

	inputs    chan input
	questions chan question
	alerts    chan alert.Alert
	acks      chan published
	snapshots chan snapshotJob
	saved     chan error

	// pending are alerts that the publisher has no room for. While there are any, no
	// telemetry is read.
	pending []alert.Alert
	// raised counts the alerts added to pending, stored those that the bus has stored.
	raised, stored int
	// lastStored is the highest known sequence of an alert of ours in ALERTS.
	lastStored uint64

	// changed, bytes and ticks describe the messages since the last snapshot: whether
	// there was anything but ticks, the total size, and the number of ticks.
	changed bool
	bytes   int
	ticks   int
	// nextSnapshot waits until its alerts are stored. saving is set while a snapshot is
	// being written.
	nextSnapshot *snapshotJob
	saving       bool

	// results are those of the newest noise commands. waiters are closed when the fold
	// reaches their sequence.
	results commandResults
	waiters map[chan struct{}]uint64

	backlog       uint64
	backlogMetric prometheus.Gauge
	caughtUp      bool
	lost          uint64
	// exported is what the metrics contain of the fold's counters.
	exported fold.Stats
	// historyRead is closed once the ring contains the events before the start, which is
	// so from the message historyEnd on.
	historyRead chan struct{}
	historyEnd  uint64
	// lastSeq is the last sequence read by the only partition; loss is for one of several.
	lastSeq uint64
	loss    lossCounter
}

// question is a function that the loop runs between two messages.
type question func(l *loop)

func newLoop(p *partition, s *startState) *loop {
	return &loop{
		p: p, fold: s.fold, ring: p.newRing(), position: s.position, replayed: s.replayed, lost: s.lost,
		replayEnd:     s.newest,
		lastStored:    s.position.Alerts,
		caughtUp:      s.caughtUp,
		inputs:        make(chan input, readAhead),
		questions:     make(chan question),
		alerts:        make(chan alert.Alert, publishQueue),
		acks:          make(chan published),
		snapshots:     make(chan snapshotJob),
		saved:         make(chan error),
		waiters:       map[chan struct{}]uint64{},
		historyRead:   make(chan struct{}),
		historyEnd:    s.position.Telemetry,
		backlogMetric: p.metrics.backlogOf(p.number),
		loss:          lossCounter{last: s.position.Telemetry, checked: s.first - min(s.first, 1)},
	}
}

// run folds until reading ends, then flushes alerts and saves the state. working ends
// later: it is the context of the publisher and the snapshot writer.
func (l *loop) run(reading, working context.Context) error {
	l.p.metrics.lost.Add(float64(l.lost))
	l.p.progress.lost.Store(l.lost)
	l.p.progress.notTracked.Store(int64(l.fold.NotTracked()))
	if l.caughtUp {
		l.reportCaughtUp()
	}
	tick := time.NewTicker(l.p.cfg.SnapshotEvery)
	defer tick.Stop()
	for {
		select {
		case <-reading.Done():
			return l.finish(working)
		default:
		}
		l.step(reading.Done(), tick.C)
	}
}

// step handles one channel operation. It reads no telemetry while alerts wait for the
// publisher. A snapshot waits until its alerts are stored and the snapshot before it is
// written; a newer one may replace it meanwhile.
func (l *loop) step(done <-chan struct{}, tick <-chan time.Time) {
	inputs := l.inputs
	var alerts chan alert.Alert
	var next alert.Alert
	if len(l.pending) > 0 {
		inputs, alerts, next = nil, l.alerts, l.pending[0]
	}
	var snapshots chan snapshotJob
	var job snapshotJob
	if l.nextSnapshot != nil && !l.saving && l.stored >= l.nextSnapshot.raised {
		snapshots, job = l.snapshots, *l.nextSnapshot
	}
	select {
	case in := <-inputs:
		l.handle(in)
	case alerts <- next:
		l.pending = l.pending[1:]
	case ack := <-l.acks:
		l.acknowledge(ack)
	case snapshots <- job:
		l.nextSnapshot, l.saving = nil, true
	case err := <-l.saved:
		l.saving = false
		if err != nil {
			l.p.metrics.snapshotFailures.Inc()
			l.p.log.Warn("cannot save the state; a restart would replay more telemetry", "error", err)
			l.changed = true
		}
	case q := <-l.questions:
		q(l)
	case <-tick:
		l.snapshot()
	case <-done:
	}
}

// handle takes one item of the reader.
func (l *loop) handle(in input) {
	switch {
	case !in.recreated.IsZero():
		l.position.Telemetry, l.position.Created, l.lastSeq, l.loss = 0, in.recreated, 0, lossCounter{}
		l.replayEnd, l.replayed = 0, nil // the telemetry to replay is gone
		return
	case in.started:
		l.loss.started()
		l.setBacklog(in.backlog)
		return
	}
	m := in.message
	if l.p.total > 1 {
		l.loss.read(m.Seq, in.backlog)
	} else {
		l.countGap(m.Seq)
	}
	if m.Seq > l.position.Telemetry { // otherwise the snapshot contains it and only the ring needs it
		l.apply(in)
	}
	for i := range m.Events {
		if e := &m.Events[i]; l.fold.Tracks(e.App) {
			l.ring.AddAt(query.EventPosition{Seq: m.Seq, Index: i}, e, m.Time, in.sender)
		}
	}
	if m.Seq >= l.historyEnd {
		l.endHistory()
	}
	l.setBacklog(in.backlog)
	if l.bytes >= snapshotBytes {
		l.snapshot()
	}
}

// apply folds a message that the state does not contain yet.
func (l *loop) apply(in input) {
	m := in.message
	l.p.metrics.messages.Inc()
	l.p.metrics.events.Add(float64(len(m.Events)))
	if in.decodeErr != nil {
		l.p.metrics.undecodable.Inc()
		l.p.log.Warn("skipped a message that cannot be decoded", "error", in.decodeErr)
	}
	out := l.fold.Apply(m)
	l.position.Telemetry = m.Seq
	l.bytes += in.bytes
	if in.tick {
		l.ticks++
	}
	l.changed = l.changed || !in.tick || len(out.Alerts) > 0 || l.ticks >= ticksPerSnapshot
	l.raise(out.Alerts)
	for _, app := range out.Forgotten {
		l.ring.Forget(app)
	}
	l.p.progress.notTracked.Store(int64(l.fold.NotTracked()))
	if out.Noise != nil {
		l.results.add(in.commandID, *out.Noise)
	}
	for waiter, seq := range l.waiters {
		if seq <= l.position.Telemetry {
			delete(l.waiters, waiter)
			close(waiter)
		}
	}
}

// setBacklog records how many messages are still to be read.
func (l *loop) setBacklog(backlog uint64) {
	l.backlog = backlog
	l.p.progress.backlog.Store(backlog)
	l.backlogMetric.Set(float64(backlog))
	if backlog == 0 {
		l.endHistory()
	}
	if backlog == 0 && !l.caughtUp {
		l.caughtUp = true
		l.reportCaughtUp()
	}
	if l.replayDone() {
		l.replayed = nil
	}
}

// endHistory lets queries use the ring.
func (l *loop) endHistory() {
	select {
	case <-l.historyRead:
	default:
		close(l.historyRead)
	}
}

// replayDone reports whether all telemetry from before the start is folded, so that
// every further alert is new.
func (l *loop) replayDone() bool { return l.position.Telemetry >= l.replayEnd || l.caughtUp }

// acknowledge records alerts that the bus has stored.
func (l *loop) acknowledge(ack published) {
	l.stored += ack.count
	l.lastStored = max(l.lastStored, ack.last)
}

func (l *loop) reportCaughtUp() {
	l.p.log.Info("detector is up to date", "sequence", l.position.Telemetry)
	l.p.progress.caughtUp.Store(true)
	if l.p.onCaughtUp != nil {
		l.p.onCaughtUp()
	}
}

// countGap counts the messages that TELEMETRY dropped before the only partition read
// them: its sequences have no other gaps.
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

// raise queues alerts for the publisher, except those that were published before the
// start.
func (l *loop) raise(alerts []alert.Alert) {
	for _, a := range alerts {
		if _, ok := l.replayed[a.ID]; ok {
			delete(l.replayed, a.ID)
			continue
		}
		l.p.metrics.alerts.WithLabelValues(string(a.Category), string(a.Severity)).Inc()
		l.pending = append(l.pending, a)
		l.raised++
	}
}

// snapshot captures the state, to be saved once its alerts are stored. It replaces a
// snapshot that still waits.
func (l *loop) snapshot() {
	if !l.changed {
		return
	}
	state, err := l.fold.Snapshot()
	if err != nil {
		l.p.metrics.snapshotFailures.Inc()
		l.p.log.Error("cannot capture the state for a snapshot", "error", err)
		return
	}
	position := l.position
	// During the replay, an alert that the replay is still to raise again may have a
	// lower sequence than the newest one that was stored.
	if l.replayDone() {
		position.Alerts = l.lastStored
	}
	l.nextSnapshot = &snapshotJob{position: position, state: state, raised: l.raised}
	l.changed, l.bytes, l.ticks = false, 0, 0
	l.p.metrics.snapshotBytesOf(l.p.number).Set(float64(len(state)))
	l.exportStats()
}

// exportStats adds to the metrics what the fold counted since the last call.
func (l *loop) exportStats() {
	now, label := l.fold.Stats(), strconv.Itoa(l.p.number)
	l.p.metrics.fold.add(l.exported, now)
	l.p.metrics.fold.bytes.WithLabelValues(label).Set(float64(now.Bytes))
	l.p.metrics.fold.notTracked.WithLabelValues(label).Set(float64(now.NotTracked))
	l.exported = now
}

// finish waits until the raised alerts are stored and the state is saved. The next start
// repeats what does not finish in time.
func (l *loop) finish(working context.Context) error {
	// The grace of working starts when the detector stops, not when a reader fails.
	ctx, cancel := context.WithTimeoutCause(working, flushTimeout, bus.ErrGrace)
	defer cancel()
	l.inputs = nil
	l.changed = l.changed || l.ticks > 0
	l.snapshot()
	for len(l.pending) > 0 || l.stored < l.raised || l.nextSnapshot != nil || l.saving {
		l.step(ctx.Done(), nil)
		if errors.Is(context.Cause(ctx), bus.ErrGrace) {
			l.p.log.Warn("alerts or state not stored in time; the next start repeats them", "alerts", l.raised-l.stored)
		}
		if ctx.Err() != nil {
			return nil // the next start repeats what was not stored
		}
	}
	return nil
}

// maxResults is how many results of noise commands are kept for queries that ask after
// the command was folded. The oldest is dropped first.
const maxResults = 64

// commandResults are the results of the newest noise commands, by command id.
type commandResults struct {
	reports map[string]noise.Report
	order   []string
}

func (r *commandResults) add(id string, report noise.Report) {
	if r.reports == nil {
		r.reports = map[string]noise.Report{}
	}
	if len(r.order) == maxResults {
		delete(r.reports, r.order[0])
		r.order = r.order[1:]
	}
	r.reports[id] = report
	r.order = append(r.order, id)
}
