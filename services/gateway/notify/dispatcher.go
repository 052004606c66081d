package notify

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// inputQueue is the number of notices that may wait for the dispatcher. It takes one
	// within microseconds, so only a stopped process fills the queue.
	inputQueue = 64
	// sinkQueue is the number of notices that may wait for one sink. Beyond it they are
	// dropped and counted; the log and the bus have them anyway.
	sinkQueue = 16
	// endTimeout bounds the deliveries after Run's context ended, of all sinks together.
	endTimeout = 120 * time.Millisecond
)

// Dispatcher delivers notices to the configured sinks. Each sink has a queue and a goroutine of its
// own. A nil Dispatcher delivers nothing.
type Dispatcher struct {
	level Level
	in    chan Notice
	sinks []*sinkWorker
	// limit is used by Run's goroutine only.
	limit *rateLimit
	log   *slog.Logger
	// inputDropped counts the notices that were dropped because the input queue was full.
	inputDropped atomic.Uint64
}

// New returns a Dispatcher for the configured sinks, or nil if there are none. It does not
// write or connect yet. Its error is that of [Settings.Validate].
func New(s Settings, log *slog.Logger) (*Dispatcher, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	var sinks []*sinkWorker
	add := func(name string, timeout time.Duration, s sink) {
		sinks = append(sinks, newSinkWorker(name, timeout, s, log))
	}
	if s.Desktop {
		add("desktop", desktopTimeout, newDesktop())
	}
	if s.File != "" {
		path, err := filepath.Abs(s.File)
		if err != nil {
			return nil, err
		}
		add("file", fileTimeout, newFile(path))
	}
	if s.Webhook != "" {
		add("webhook", deliveryTimeout, newWebhook(s.Webhook, s.WebhookToken))
	}
	if s.Slack != "" {
		add("slack", deliveryTimeout, newSlack(s.Slack))
	}
	if len(sinks) == 0 {
		return nil, nil
	}
	return &Dispatcher{level: s.MinLevel(), in: make(chan Notice, inputQueue), sinks: sinks, limit: newRateLimit(), log: log}, nil
}

// Send queues a notice and returns at once. The notice should be cleaned, see
// [Notice.Clean].
func (d *Dispatcher) Send(n Notice) {
	if d == nil {
		return
	}
	select {
	case d.in <- n:
	default:
		d.inputDropped.Add(1)
	}
}

// Run delivers until ctx ends. Notices sent by then have 120 ms to be delivered.
func (d *Dispatcher) Run(ctx context.Context) {
	if d == nil {
		return
	}
	abort, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var running sync.WaitGroup
	for _, w := range d.sinks {
		running.Go(func() { w.run(abort) })
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case n := <-d.in:
			d.dispatch(n, time.Now())
		}
	}
	for empty := false; !empty; {
		select {
		case n := <-d.in:
			d.dispatch(n, time.Now())
		default:
			empty = true
		}
	}
	for _, w := range d.sinks {
		close(w.queue)
	}
	stop := time.AfterFunc(endTimeout, cancel)
	defer stop.Stop()
	running.Wait()
	if n := d.limit.unreported(); n > 0 {
		d.log.Info("notices were suppressed by the rate limit", "count", n)
	}
}

// dispatch gives a notice to every sink if it passes the level and the rate limit.
func (d *Dispatcher) dispatch(n Notice, now time.Time) {
	if n.Level.Severity().Rank() < d.level.Severity().Rank() {
		return
	}
	suppressed, ok := d.limit.allow(n.Client+"\x00"+n.Context, now) // one gateway may serve several clients
	if !ok {
		return
	}
	for _, w := range d.sinks {
		w.enqueue(delivery{Notice: n, Suppressed: suppressed})
	}
}

// Health counts the deliveries of one sink.
type Health struct {
	Sink string `json:"sink"`
	// Sent notices were delivered, Failed ones were not, and Dropped ones did not fit into
	// the queue.
	Sent    uint64 `json:"sent"`
	Failed  uint64 `json:"failed"`
	Dropped uint64 `json:"dropped"`
}

// Health returns the counts of the sinks, in the order of the settings.
func (d *Dispatcher) Health() []Health {
	if d == nil {
		return nil
	}
	all := make([]Health, 0, len(d.sinks))
	for _, w := range d.sinks {
		all = append(all, Health{
			Sink: w.name, Sent: w.sent.Load(), Failed: w.failed.Load(), Dropped: w.dropped.Load() + d.inputDropped.Load(),
		})
	}
	return all
}
