package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/dashboard/fanout"
	"github.com/tocsin-bus/tocsin/services/dashboard/sequencer"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// Bounds of following the alerts.
const (
	// liveQueue is how many live alerts are queued. More are dropped, and read from the
	// stream later.
	liveQueue = 4096
	// liveBatch is how many are published to readers at once.
	liveBatch = 256
	// loadLimit is how many of the newest alerts are read at the start.
	loadLimit = 1000
	// readBatch is how many alerts one request reads, readTimeout bounds the request.
	readBatch   = 500
	readTimeout = 2 * time.Second
	// checkEvery is the time between two checks of the stream's end, because live messages may
	// be lost between servers without notice.
	checkEvery = 2 * time.Second
	// laggingRetry and failedRetry are the pauses before the stream is read again.
	laggingRetry = 20 * time.Millisecond
	failedRetry  = 250 * time.Millisecond
	// catchUpPiece and catchUpBytes bound how many missed alerts are published at once,
	// far less than is kept for readers, and catchUpPause is the pause between.
	catchUpPiece = 256
	catchUpBytes = 1 << 20
	catchUpPause = 5 * time.Millisecond
	// lagTimeout is how long a replica may lag until the alerts that it lacks count as
	// purged.
	lagTimeout = 5 * time.Second
	// graceTimeout bounds reading the last alerts at shutdown, and writing them to a reader.
	graceTimeout = 500 * time.Millisecond
)

// errNotLoaded is returned before the newest alerts were read.
var errNotLoaded = errors.New("the alerts are not read yet")

// feed reads the alerts as [bus.RoleDashboard] may: it subscribes to the live alerts, and
// reads the stream ALERTS by sequence where something is missing. It creates no consumer.
// Its loop owns the sequencer.
type feed struct {
	link    *bus.Link
	hub     *fanout.Hub
	mask    *redact.Engine
	metrics *metrics
	log     *slog.Logger

	// failure is why alerts can't be read now, or nil.
	failure atomic.Pointer[error]

	sequencer sequencer.Sequencer
	// loaded reports whether the newest alerts were read.
	loaded bool
	// retry fires when the stream has to be read again.
	retry *time.Timer
	// stuckSince is the time since when published alerts can't be read, or zero.
	stuckSince time.Time
}

func newFeed(cfg bus.Config, hub *fanout.Hub, mask *redact.Engine, m *metrics, log *slog.Logger) *feed {
	f := &feed{link: keepSession(cfg), hub: hub, mask: mask, metrics: m, log: log, retry: time.NewTimer(0)}
	f.setFailure(errNotLoaded)
	return f
}

// ready returns why alerts do not arrive, or nil.
func (f *feed) ready() error {
	if _, err := f.link.Connected(); err != nil {
		if s := f.link.Session(); s != nil && s.Why() != nil {
			return s.Why()
		}
		return bus.ErrUnreachable
	}
	return *f.failure.Load()
}

func (f *feed) setFailure(err error) { f.failure.Store(&err) }

// run reads and publishes alerts until ctx ends, and then those that are stored and not
// published yet, for at most graceTimeout or until serving ends.
func (f *feed) run(ctx, serving context.Context) error {
	abort, cancel := bus.WithGrace(ctx, graceTimeout)
	defer cancel()
	defer context.AfterFunc(serving, cancel)()
	return f.link.Run(ctx, func(ctx context.Context, s *bus.Session) error {
		live := make(chan *nats.Msg, liveQueue)
		if _, err := s.NC.ChanSubscribe(bus.AllLiveAlerts, live); err != nil {
			return fmt.Errorf("subscribe to the alerts: %w", err)
		}
		return f.follow(ctx, abort, s, live)
	})
}

// keepSession returns a link that opens another session after any error.
func keepSession(cfg bus.Config) *bus.Link {
	return bus.NewLink(bus.RunConfig{Config: cfg, Retry: func(error) bool { return true }})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// follow publishes the alerts until ctx ends. The end of abort cancels its requests.
func (f *feed) follow(ctx, abort context.Context, s *bus.Session, live <-chan *nats.Msg) error {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	f.sequencer.SuspectRecreation()
	f.retry.Reset(0)
	for {
		select {
		case <-ctx.Done():
			// The last alerts may not have arrived yet.
			f.check(abort, s)
			return nil
		case <-s.Changes():
			f.sequencer.SuspectRecreation()
			f.catchUp(abort, s)
		case m := <-live:
			f.receive(abort, m, live)
			if _, wanted := f.sequencer.NextRead(); wanted {
				f.catchUp(abort, s)
			}
		case <-check.C:
			f.check(abort, s)
		case <-f.retry.C:
			f.catchUp(abort, s)
		}
	}
}

// receive publishes a live alert and those that are queued after it, unless the stream has
// to be read first.
func (f *feed) receive(ctx context.Context, m *nats.Msg, live <-chan *nats.Msg) {
	if !f.loaded {
		return // load will read it from the stream
	}
	var next []bus.Message
	for n := 0; ; n++ {
		if live, err := bus.Republished(m); err != nil {
			f.log.Warn("ignored a message that is not from the stream of alerts", "subject", m.Subject, "error", err)
		} else if f.sequencer.AddLive(stamp(live)) {
			next = append(next, live)
		}
		if n == liveBatch {
			break
		}
		select {
		case m = <-live:
			continue
		default:
		}
		break
	}
	f.publish(ctx, next)
}

func stamp(m bus.Message) sequencer.Stamp { return sequencer.Stamp{Seq: m.Seq, Time: m.Time} }

func stamps(msgs []bus.Message) []sequencer.Stamp {
	list := make([]sequencer.Stamp, len(msgs))
	for i, m := range msgs {
		list[i] = stamp(m)
	}
	return list
}

// publish passes alerts to the readers.
func (f *feed) publish(ctx context.Context, msgs []bus.Message) {
	if len(msgs) == 0 {
		return
	}
	events := f.events(ctx, msgs)
	f.metrics.alerts.Add(float64(len(events)))
	if err := f.hub.Publish(ctx, msgs[len(msgs)-1].Seq, events); err != nil {
		f.log.Debug("could not publish the last alerts", "error", err)
	}
}

// publishSlowly publishes many alerts in pieces with pauses, so that readers which keep up
// with live alerts do not miss any of them.
func (f *feed) publishSlowly(ctx context.Context, msgs []bus.Message) {
	for len(msgs) > 0 && ctx.Err() == nil {
		n, bytes := 0, 0
		for n < len(msgs) && n < catchUpPiece && bytes < catchUpBytes {
			bytes += len(msgs[n].Data)
			n++
		}
		f.publish(ctx, msgs[:n])
		if msgs = msgs[n:]; len(msgs) > 0 {
			pause(ctx, catchUpPause)
		}
	}
}

// events decodes alerts, until ctx ends.
func (f *feed) events(ctx context.Context, msgs []bus.Message) []*fanout.Event {
	events := make([]*fanout.Event, 0, len(msgs))
	for _, m := range msgs {
		if ctx.Err() != nil {
			break
		}
		e, err := newEvent(m, f.mask)
		if err != nil {
			f.log.Warn("ignored a message that is not an alert", "subject", m.Subject, "sequence", m.Seq, "error", err)
			continue
		}
		events = append(events, e)
	}
	return events
}

// catchUp reads and publishes what is missing. If the bus does not have it yet, retry fires
// later.
func (f *feed) catchUp(ctx context.Context, s *bus.Session) {
	wait, err := f.read(ctx, s)
	if err != nil {
		f.log.Debug("could not read the alerts", "error", err)
		wait = failedRetry
	}
	f.setFailure(err)
	if wait > 0 {
		f.retry.Reset(wait)
	}
}

// read reads and publishes what is missing. It returns the pause before the next read, or 0.
func (f *feed) read(ctx context.Context, s *bus.Session) (wait time.Duration, err error) {
	if !f.loaded {
		if err := f.load(ctx, s); err != nil {
			return 0, err
		}
	}
	for {
		from, wanted := f.sequencer.NextRead()
		if !wanted {
			f.stuckSince = time.Time{}
			return 0, nil
		}
		msgs, err := readFrom(ctx, s, from, readBatch)
		if err != nil {
			return 0, err
		}
		missed := f.sequencer.Missed()
		first, outcome := f.sequencer.AddRead(stamps(msgs), hasMore(msgs))
		f.countMissed(missed)
		if outcome == sequencer.Empty {
			newest, found, err := f.newest(ctx, s)
			if err != nil {
				return 0, err
			}
			outcome = f.sequencer.AddEmptyRead(newest, found)
		}
		if first < len(msgs) && outcome != sequencer.Recreated {
			f.publishSlowly(ctx, msgs[first:])
			f.stuckSince = time.Time{}
		}
		switch outcome {
		case sequencer.Recreated:
			f.log.Warn("the stream of alerts was recreated: publishing it from the beginning")
			if err := f.hub.Load(ctx, 1, nil); err != nil {
				return 0, err
			}
		case sequencer.Lagging:
			return f.lag(), nil
		case sequencer.Continue, sequencer.Empty:
		}
	}
}

// hasMore reports whether the stream has messages after those that were read.
func hasMore(msgs []bus.Message) bool { return len(msgs) > 0 && msgs[len(msgs)-1].Pending > 0 }

// lag returns the pause before the next read of messages that a replica lacks. After
// lagTimeout, it counts them as purged.
func (f *feed) lag() time.Duration {
	now := time.Now()
	if f.stuckSince.IsZero() {
		f.stuckSince = now
	}
	if now.Sub(f.stuckSince) > lagTimeout {
		f.stuckSince = time.Time{}
		missed := f.sequencer.Missed()
		f.sequencer.Skip()
		f.countMissed(missed)
	}
	return laggingRetry
}

func (f *feed) countMissed(before uint64) {
	if n := f.sequencer.Missed() - before; n > 0 {
		f.metrics.missed.Add(float64(n))
		f.log.Warn("the bus dropped alerts before they were read", "alerts", n)
	}
}

// load reads the newest alerts.
func (f *feed) load(ctx context.Context, s *bus.Session) error {
	newest, found, err := f.newest(ctx, s)
	if err != nil {
		return err
	}
	from := uint64(1)
	var msgs []bus.Message
	if found {
		from = newest.Seq - min(newest.Seq, loadLimit) + 1
		if msgs, err = readFrom(ctx, s, from, loadLimit); err != nil {
			return err
		}
	}
	if err := f.hub.Load(ctx, from, f.events(ctx, msgs)); err != nil {
		return err
	}
	f.sequencer.Start(stamps(msgs))
	f.loaded = true
	return nil
}

// check compares the end of the stream with what was published.
func (f *feed) check(ctx context.Context, s *bus.Session) {
	if !s.Connected() || !f.loaded {
		return // the next change of the connection reads the stream
	}
	newest, found, err := f.newest(ctx, s)
	if err != nil {
		f.log.Debug("could not read the newest alert", "error", err)
		f.setFailure(err)
		return
	}
	f.setFailure(nil)
	f.sequencer.CheckEnd(newest, found)
	if _, wanted := f.sequencer.NextRead(); wanted {
		f.catchUp(ctx, s)
	}
}

func (f *feed) newest(ctx context.Context, s *bus.Session) (sequencer.Stamp, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m, found, err := s.Newest(ctx, bus.StreamAlerts, bus.AllAlerts)
	return stamp(m), found, err
}

func readFrom(ctx context.Context, s *bus.Session, from uint64, limit int) ([]bus.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return s.Read(ctx, bus.StreamAlerts, from, limit)
}
