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
	// waiting is how many notices may wait to be looked at. That takes
	// microseconds, so only a stopped process fills it.
	waiting = 64
	// queued is how many may wait for one sink. Past it they are dropped and
	// counted: log and bus have them anyway.
	queued = 16
	// endWithin is how long the sinks may take at the end, all together.
	endWithin = 120 * time.Millisecond
)

// Dispatcher delivers notices. Only its loop touches the limit; each sink is its
// outlet's own. A nil Dispatcher delivers nothing.
type Dispatcher struct {
	level   Level
	in      chan Notice
	outlets []*outlet
	limit   *limit
	log     *slog.Logger
	overrun atomic.Uint64
}

// New makes a Dispatcher for the sinks that are set, or nil where there are none.
// It writes and connects nothing yet. Its error is that of Settings.Validate.
func New(s Settings, log *slog.Logger) (*Dispatcher, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	var outlets []*outlet
	add := func(name string, bound time.Duration, s sink) {
		outlets = append(outlets, newOutlet(name, bound, s, log))
	}
	if s.Desktop {
		add("desktop", desktopWithin, newDesktop())
	}
	if s.File != "" {
		path, err := filepath.Abs(s.File)
		if err != nil {
			return nil, err
		}
		add("file", fileWithin, newFile(path))
	}
	if s.Webhook != "" {
		add("webhook", triesWithin, newWebhook(s.Webhook, s.WebhookToken))
	}
	if s.Slack != "" {
		add("slack", triesWithin, newSlack(s.Slack))
	}
	if len(outlets) == 0 {
		return nil, nil
	}
	return &Dispatcher{level: s.Least(), in: make(chan Notice, waiting), outlets: outlets, limit: newLimit(), log: log}, nil
}

// Send hands a notice over and returns at once. It should be Clean.
func (c *Dispatcher) Send(n Notice) {
	if c == nil {
		return
	}
	select {
	case c.in <- n:
	default:
		c.overrun.Add(1)
	}
}

// Run delivers until ctx ends; what was told by then has endWithin to arrive.
func (c *Dispatcher) Run(ctx context.Context) {
	if c == nil {
		return
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var running sync.WaitGroup
	for _, o := range c.outlets {
		running.Go(func() { o.run(life) })
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case n := <-c.in:
			c.pass(n, time.Now())
		}
	}
	for drained := false; !drained; {
		select {
		case n := <-c.in:
			c.pass(n, time.Now())
		default:
			drained = true
		}
	}
	for _, o := range c.outlets {
		close(o.queue)
	}
	stop := time.AfterFunc(endWithin, end)
	defer stop.Stop()
	running.Wait()
	if n := c.limit.left(); n > 0 {
		c.log.Info("notices were held back by the rate limit", "count", n)
	}
}

// pass gives a notice to every sink, if it is urgent enough and not one too many.
func (c *Dispatcher) pass(n Notice, now time.Time) {
	if n.Level.Severity().Rank() < c.level.Severity().Rank() {
		return
	}
	held, ok := c.limit.take(n.Client+"\x00"+n.Context, now) // one gateway may serve several clients
	if !ok {
		return
	}
	for _, o := range c.outlets {
		o.offer(delivery{Notice: n, HeldBack: held})
	}
}

// Health is how one sink does.
type Health struct {
	Sink string `json:"sink"`
	// Sent were delivered, Failed were not, Dropped came while the queue was full.
	Sent    uint64 `json:"sent"`
	Failed  uint64 `json:"failed"`
	Dropped uint64 `json:"dropped"`
}

// Health says how the sinks do, in the order of the settings.
func (c *Dispatcher) Health() []Health {
	if c == nil {
		return nil
	}
	all := make([]Health, 0, len(c.outlets))
	for _, o := range c.outlets {
		all = append(all, Health{
			Sink: o.name, Sent: o.sent.Load(), Failed: o.failed.Load(), Dropped: o.dropped.Load() + c.overrun.Load(),
		})
	}
	return all
}
