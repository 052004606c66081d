// Package delivery delivers the alerts of one client: it follows them on the bus from
// the client's inbox position, suppresses what is silenced, keeps the rest in the inbox
// until the client takes it, and hands notifications to the delivery channels.
//
// One loop owns inbox, notifier and silence filter ([State]). Several readers may serve
// one client; the one that first moves the inbox position past an alert delivers it.
package delivery

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/silences"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// pastTimeout is how long after the start a call waits for the bus and for the alerts
// that came before, so that the first observe has them.
const pastTimeout = 3 * time.Second

// Config configures a client. Only Changed may be nil.
type Config struct {
	Bus *busclient.Client
	// Life bounds all calls. Their own contexts end with stdin, when they can still be
	// answered.
	Life *busclient.Lifetime
	// Ephemeral clients never come back and have no other reader: no position is stored
	// for them.
	Ephemeral bool
	// Visible reports whether this client may see an alert.
	Visible func(alert.Alert) bool
	// Changed is called with each new alert that is not suppressed. It must not block.
	Changed func(alert.Alert)
	Mask    *redact.Engine
	Logger  *slog.Logger
}

// Client delivers alerts to one client.
type Client struct {
	bus       *busclient.Client
	life      *busclient.Lifetime
	ephemeral bool
	visible   func(alert.Alert) bool
	mask      *redact.Engine
	log       *slog.Logger

	loop  *loop
	saver *positionSaver
	watch *silences.Watch

	// started is when the client was created.
	started time.Time
	// inbox is the key of the client's inbox, once it is known; identified receives it.
	inbox      atomic.Pointer[string]
	identified chan struct{}
	// caughtUp is closed once all alerts of the past were handed on.
	caughtUp chan struct{}
	// takeLock is full while a call compares the inbox with the stored position.
	takeLock chan struct{}

	// reader is how far follow has read the stream.
	reader streamReader
}

// New returns a client that delivers nothing yet: [Client.Run] and [Client.Serve] do.
func New(cfg Config) *Client {
	c := &Client{
		bus: cfg.Bus, life: cfg.Life, ephemeral: cfg.Ephemeral, visible: cfg.Visible, mask: cfg.Mask, log: cfg.Logger,
		loop: newLoop(cfg.Changed, cfg.Logger), started: time.Now(),
		identified: make(chan struct{}), caughtUp: make(chan struct{}), takeLock: make(chan struct{}, 1),
	}
	c.saver = newPositionSaver(c.claim, cfg.Logger)
	c.watch = silences.NewWatch(c, c.loop.state.Silences, cfg.Logger)
	return c
}

// Run owns the state until the lifetime is aborted.
func (c *Client) Run() error {
	ctx := c.life.Context()
	var parts errgroup.Group
	parts.Go(func() error { return c.loop.run(ctx) })
	parts.Go(func() error { return c.saver.run(ctx) })
	return parts.Wait()
}

// Serve follows alerts and silences on a connection until ctx ends.
func (c *Client) Serve(ctx context.Context, session *bus.Session) error {
	group, ctx := errgroup.WithContext(ctx)
	loaded := make(chan struct{})
	group.Go(func() error { return c.follow(ctx, session, loaded) })
	group.Go(func() error { return c.watch.Run(ctx, session, loaded) })
	return group.Wait()
}

// Identify sets the key of the client's inbox. Only the first call counts.
func (c *Client) Identify(inbox string) {
	if c.inbox.CompareAndSwap(nil, &inbox) {
		close(c.identified)
	}
}

// Inbox returns the key given to Identify, or "" before that.
func (c *Client) Inbox() string {
	if key := c.inbox.Load(); key != nil {
		return *key
	}
	return ""
}

// Notifications receives the notifications of all channels, each one line of JSON-RPC.
func (c *Client) Notifications() <-chan string { return c.loop.out }

// CaughtUp is closed once all alerts of the past are in the inbox.
func (c *Client) CaughtUp() <-chan struct{} { return c.caughtUp }

// WaitForPast waits, soon after the start, until the alerts of the past are in the inbox.
// Later it returns at once: an unreachable bus is reported instead.
func (c *Client) WaitForPast(call context.Context) {
	timer := time.NewTimer(time.Until(c.started.Add(pastTimeout)))
	defer timer.Stop()
	select {
	case <-c.caughtUp:
	case <-timer.C:
	case <-call.Done():
	}
}

// Do calls f in the loop and waits until it has returned.
func (c *Client) Do(f func(*State, time.Time)) error { return c.loop.do(c.life.Context(), f) }

// loadPosition reads the client's stored position, and reports whether there is one.
func (c *Client) loadPosition(ctx context.Context, session *bus.Session) (p bus.Position, found bool, err error) {
	if c.ephemeral {
		return bus.Position{}, false, nil
	}
	return inbox.LoadPosition(ctx, session, c.Inbox())
}

// claimOn advances the client's stored position, and returns the position before.
func (c *Client) claimOn(ctx context.Context, session *bus.Session, p bus.Position) (before bus.Position, err error) {
	if c.ephemeral {
		return bus.Position{}, nil
	}
	return inbox.Claim(ctx, session, c.Inbox(), p)
}

// claim is claimOn on the current connection.
func (c *Client) claim(ctx context.Context, p bus.Position) (before bus.Position, err error) {
	session, err := c.bus.Session()
	if err != nil {
		return bus.Position{}, err
	}
	return c.claimOn(ctx, session, p)
}
