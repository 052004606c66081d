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
	// liveQueue is how many alerts wait for the feed. Beyond, they are dropped, and
	// read from the stream once it gets there.
	liveQueue = 4096
	// liveBatch is how many are told at once.
	liveBatch = 256
	// begun is how many alerts of the past are read at the start.
	begun = 1000
	// readBatch is how many are asked for at once, answerIn bounds the answer.
	readBatch = 500
	answerIn  = 2 * time.Second
	// checkEvery is how often is looked whether something got lost on the way: on the
	// bus between servers it may, without a word.
	checkEvery = 2 * time.Second
	// laggingRetry and failedRetry are the pauses before the stream is read again.
	laggingRetry = 20 * time.Millisecond
	failedRetry  = 250 * time.Millisecond
	// catchUpPiece and catchUpBytes are how much of what was missed is told at once,
	// catchUpPause what is between: far less than what is kept for readers.
	catchUpPiece = 256
	catchUpBytes = 1 << 20
	catchUpPause = 5 * time.Millisecond
	// patience is how long a replica may lag behind what was published until that
	// counts as purged.
	patience = 5 * time.Second
	// linkRetry is the pause before a connection that was closed for good is made
	// anew.
	linkRetry = 200 * time.Millisecond
	// lastIn is how long, at the end, the last alerts may take to be read, and to be
	// written to a reader.
	lastIn = 500 * time.Millisecond
)

var (
	// errGone says that a connection was closed for good, as it is when the bus no
	// longer knows our key.
	errGone = errors.New("the bus has closed the connection")
	// errEarly says that the alerts are not known yet.
	errEarly = errors.New("the alerts are not read yet")
)

// feed reads the alerts as bus.RoleDashboard may: it hears what ALERTS republishes,
// and reads ALERTS by sequence where something is missing. It makes no consumer. Its
// loop owns the tape.
type feed struct {
	cfg     bus.ConnConfig
	hub     *fanout.Hub
	mask    *redact.Engine
	metrics *metrics
	log     *slog.Logger

	conn atomic.Pointer[bus.Conn]
	// state is why alerts are not read right now, or nil.
	state atomic.Pointer[error]

	tape  sequencer.Tape
	known bool
	// retry fires when the stream is to be read again, and stuckSince is since when
	// what was published can't be read.
	retry      *time.Timer
	stuckSince time.Time
}

func newFeed(cfg bus.ConnConfig, hub *fanout.Hub, mask *redact.Engine, m *metrics, log *slog.Logger) *feed {
	f := &feed{cfg: cfg, hub: hub, mask: mask, metrics: m, log: log, retry: time.NewTimer(0)}
	f.say(errEarly)
	return f
}

// ready is nil, or says why alerts don't arrive.
func (f *feed) ready() error {
	if c := f.conn.Load(); c == nil || !c.Connected() {
		if c != nil && c.Why() != nil {
			return c.Why()
		}
		return bus.ErrAway
	}
	return *f.state.Load()
}

func (f *feed) say(err error) { f.state.Store(&err) }

// run connects and follows until ctx ends, and then tells what is stored and not told
// yet. What is under way goes on for lastIn after ctx at most, and ends with life.
func (f *feed) run(ctx, life context.Context) error {
	work, cancel := context.WithCancel(life)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		pause(work, lastIn)
		cancel()
	})()
	for ctx.Err() == nil {
		if err := f.runOnce(ctx, work); err != nil {
			f.log.Warn("connect to the bus again", "because", err)
		}
		pause(ctx, linkRetry)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (f *feed) runOnce(ctx, work context.Context) error {
	c, err := bus.Connect(ctx, f.cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	live := make(chan *nats.Msg, liveQueue)
	if _, err := c.NC.ChanSubscribe(bus.AllLiveAlerts, live); err != nil {
		return fmt.Errorf("subscribe to the alerts: %w", err)
	}
	f.conn.Store(c)
	return f.follow(ctx, work, c, live)
}

// follow tells the alerts until ctx ends or the connection is closed for good.
func (f *feed) follow(ctx, work context.Context, c *bus.Conn, live <-chan *nats.Msg) error {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	f.tape.Doubt()
	f.retry.Reset(0)
	for {
		select {
		case <-ctx.Done():
			// What was stored last may still be on its way here.
			f.check(work, c)
			return nil
		case <-c.Changes():
			if c.NC.IsClosed() {
				return errGone
			}
			f.tape.Doubt()
			f.catchUp(work, c)
		case m := <-live:
			f.hear(work, m, live)
			if _, wanted := f.tape.Want(); wanted {
				f.catchUp(work, c)
			}
		case <-check.C:
			f.check(work, c)
		case <-f.retry.C:
			f.catchUp(work, c)
		}
	}
}

// hear takes a live alert, and those that wait behind it.
func (f *feed) hear(ctx context.Context, m *nats.Msg, live <-chan *nats.Msg) {
	if !f.known {
		return // it is in the stream, which is read in a moment
	}
	var next []bus.Message
	for n := 0; ; n++ {
		if heard, err := bus.Republished(m); err != nil {
			f.log.Warn("skipped what is no alert of the stream", "subject", m.Subject, "error", err)
		} else if f.tape.Heard(mark(heard)) {
			next = append(next, heard)
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
	f.tell(ctx, next)
}

func mark(m bus.Message) sequencer.Mark { return sequencer.Mark{Seq: m.Seq, Time: m.Time} }

func marks(msgs []bus.Message) []sequencer.Mark {
	list := make([]sequencer.Mark, len(msgs))
	for i, m := range msgs {
		list[i] = mark(m)
	}
	return list
}

// tell hands alerts to the readers.
func (f *feed) tell(ctx context.Context, msgs []bus.Message) {
	if len(msgs) == 0 {
		return
	}
	events := f.events(ctx, msgs)
	f.metrics.alerts.Add(float64(len(events)))
	if err := f.hub.Tell(ctx, msgs[len(msgs)-1].Seq, events); err != nil {
		f.log.Debug("too late to be told", "error", err)
	}
}

// tellSlowly tells what was read at once in pieces, with room between: who reads
// along as fast as alerts come must not lose any that came late.
func (f *feed) tellSlowly(ctx context.Context, msgs []bus.Message) {
	for len(msgs) > 0 && ctx.Err() == nil {
		n, bytes := 0, 0
		for n < len(msgs) && n < catchUpPiece && bytes < catchUpBytes {
			bytes += len(msgs[n].Data)
			n++
		}
		f.tell(ctx, msgs[:n])
		if msgs = msgs[n:]; len(msgs) > 0 {
			pause(ctx, catchUpPause)
		}
	}
}

// events reads alerts, until ctx ends.
func (f *feed) events(ctx context.Context, msgs []bus.Message) []*fanout.Event {
	events := make([]*fanout.Event, 0, len(msgs))
	for _, m := range msgs {
		if ctx.Err() != nil {
			break
		}
		e, err := event(m, f.mask)
		if err != nil {
			f.log.Warn("skipped what is no alert", "subject", m.Subject, "sequence", m.Seq, "error", err)
			continue
		}
		events = append(events, e)
	}
	return events
}

// catchUp reads what is missing, as far as the bus has it now. Where it has not, the
// stream is read again in a while.
func (f *feed) catchUp(ctx context.Context, c *bus.Conn) {
	again, err := f.read(ctx, c)
	if err != nil {
		f.log.Debug("the alerts can't be read yet", "error", err)
		again = failedRetry
	}
	f.say(err)
	if again > 0 {
		f.retry.Reset(again)
	}
}

// read is catchUp; it returns after how long to read again, or 0.
func (f *feed) read(ctx context.Context, c *bus.Conn) (again time.Duration, err error) {
	if !f.known {
		if err := f.begin(ctx, c); err != nil {
			return 0, err
		}
	}
	for {
		from, wanted := f.tape.Want()
		if !wanted {
			f.stuckSince = time.Time{}
			return 0, nil
		}
		msgs, err := readFrom(ctx, c, from, readBatch)
		if err != nil {
			return 0, err
		}
		missed := f.tape.Missed()
		first, outcome := f.tape.Read(marks(msgs), more(msgs))
		f.noteMissed(missed)
		if outcome == sequencer.Empty {
			newest, found, err := f.newest(ctx, c)
			if err != nil {
				return 0, err
			}
			outcome = f.tape.End(newest, found)
		}
		if first < len(msgs) && outcome != sequencer.Renewed {
			f.tellSlowly(ctx, msgs[first:])
			f.stuckSince = time.Time{}
		}
		switch outcome {
		case sequencer.Renewed:
			f.log.Warn("the alerts were made anew: all of them are told")
			if err := f.hub.Begin(ctx, 1, nil); err != nil {
				return 0, err
			}
		case sequencer.Behind:
			return f.lag(), nil
		case sequencer.Fine, sequencer.Empty:
		}
	}
}

// more says whether the stream holds more than was read.
func more(msgs []bus.Message) bool { return len(msgs) > 0 && msgs[len(msgs)-1].Pending > 0 }

// lag says when to read again what a replica has not got yet. What stays away was
// purged.
func (f *feed) lag() time.Duration {
	now := time.Now()
	if f.stuckSince.IsZero() {
		f.stuckSince = now
	}
	if now.Sub(f.stuckSince) > patience {
		f.stuckSince = time.Time{}
		missed := f.tape.Missed()
		f.tape.GiveUp()
		f.noteMissed(missed)
	}
	return laggingRetry
}

func (f *feed) noteMissed(before uint64) {
	if n := f.tape.Missed() - before; n > 0 {
		f.metrics.missed.Add(float64(n))
		f.log.Warn("alerts were dropped by the bus before they could be read", "alerts", n)
	}
}

// begin reads the newest alerts of the past.
func (f *feed) begin(ctx context.Context, c *bus.Conn) error {
	newest, found, err := f.newest(ctx, c)
	if err != nil {
		return err
	}
	from := uint64(1)
	var msgs []bus.Message
	if found {
		from = newest.Seq - min(newest.Seq, begun) + 1
		if msgs, err = readFrom(ctx, c, from, begun); err != nil {
			return err
		}
	}
	if err := f.hub.Begin(ctx, from, f.events(ctx, msgs)); err != nil {
		return err
	}
	f.tape.Begin(marks(msgs))
	f.known = true
	return nil
}

// check looks whether there is more than what was heard.
func (f *feed) check(ctx context.Context, c *bus.Conn) {
	if !c.Connected() || !f.known {
		return // its return is a change, and the beginning is tried again
	}
	newest, found, err := f.newest(ctx, c)
	if err != nil {
		f.log.Debug("the end of the alerts can't be read", "error", err)
		f.say(err)
		return
	}
	f.say(nil)
	f.tape.Checked(newest, found)
	if _, wanted := f.tape.Want(); wanted {
		f.catchUp(ctx, c)
	}
}

func (f *feed) newest(ctx context.Context, c *bus.Conn) (sequencer.Mark, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	m, found, err := c.Last(ctx, bus.StreamAlerts, bus.AllAlerts)
	return mark(m), found, err
}

func readFrom(ctx context.Context, c *bus.Conn, from uint64, limit int) ([]bus.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	return c.StoredFrom(ctx, bus.StreamAlerts, from, limit)
}
