package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

const (
	// linkRetry is the pause between tries to get to the alerts.
	linkRetry = 200 * time.Millisecond
	// linkTimeout bounds one try.
	linkTimeout = 5 * time.Second
	// lookBack is how many alerts before the client's position are read, for
	// revisions and resolutions of them.
	lookBack = 64
)

// link is the way to the bus: it connects for ever and follows the alerts,
// from where the client was.
type link struct {
	cfg bus.ConnConfig
	// key is the client's name; it is sent once it is known.
	key  chan string
	name atomic.Pointer[string]
	// once says that the client never comes back and has no other reader: nobody
	// keeps its place.
	once bool
	conn atomic.Pointer[bus.Conn]
	// caughtUp is closed once all alerts of the past were handed on.
	caughtUp chan struct{}
	mask     *redact.Engine
	hand     func(arrival)
	// shows says which alerts may be seen by this client.
	shows func(alert.Alert) bool
	// silences is what has to be known before the first alert is handed on.
	silences *silencer
	// attend answers on a connection who asks how this gateway is, until ctx ends. It
	// is nil where there is no client to tell of.
	attend func(ctx context.Context, c *bus.Conn)
	// kubewatch does so for the tools of Kubernetes; it is nil where there are none.
	kubewatch func(ctx context.Context, c *bus.Conn) error
	log       *slog.Logger

	// at is the newest alert handed on; known says that there is such a place.
	at    inbox.Position
	known bool
	ready bool
}

func newLink(cfg bus.ConnConfig, hand func(arrival), mask *redact.Engine, log *slog.Logger) *link {
	return &link{cfg: cfg, key: make(chan string, 1), caughtUp: make(chan struct{}), mask: mask, hand: hand, log: log}
}

// identify says which client this is. Only the first time counts.
func (l *link) identify(client string) {
	if l.name.CompareAndSwap(nil, &client) {
		l.key <- client
	}
}

// client is the name given to identify.
func (l *link) client() string {
	if name := l.name.Load(); name != nil {
		return *name
	}
	return ""
}

// load reads where the client was, and whether it was ever seen.
func (l *link) load(ctx context.Context, c *bus.Conn) (at inbox.Position, found bool, err error) {
	if l.once {
		return inbox.Position{}, false, nil
	}
	return inbox.LoadPosition(ctx, c, l.client())
}

// claim moves the client's place on, and returns where it was.
func (l *link) claim(ctx context.Context, c *bus.Conn, at inbox.Position) (before inbox.Position, err error) {
	if l.once {
		return inbox.Position{}, nil
	}
	return inbox.Claim(ctx, c, l.client(), at)
}

// errGone says that a connection was closed for good, as it is when the bus no
// longer knows our credentials.
var errGone = errors.New("the bus has closed the connection")

// run connects and follows until ctx ends.
func (l *link) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := l.runOnce(ctx); err != nil {
			l.log.Warn("connect to the bus again", "because", err)
		}
		pause(ctx)
	}
	return nil
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(linkRetry):
	}
}

func (l *link) runOnce(ctx context.Context) error {
	c, err := bus.Connect(ctx, l.cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	l.conn.Store(c)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			if c.NC.IsClosed() {
				return errGone
			}
			select {
			case <-ctx.Done():
				return nil
			case <-c.Changes():
			}
		}
	})
	loaded := make(chan struct{})
	group.Go(func() error { return l.follow(ctx, c, loaded) })
	group.Go(func() error { return l.silences.run(ctx, c, loaded) })
	if l.kubewatch != nil {
		group.Go(func() error { return l.kubewatch(ctx, c) })
	}
	if l.attend != nil {
		group.Go(func() error { l.attend(ctx, c); return nil })
	}
	return group.Wait()
}

// follow hands every alert on, in order. Before the first, it reads what is
// silenced, and closes loaded.
func (l *link) follow(ctx context.Context, c *bus.Conn, loaded chan<- struct{}) error {
	if l.client() == "" {
		select {
		case <-ctx.Done():
			return nil
		case <-l.key:
		}
	}
	if l.known { // else begin does
		l.silences.load(ctx, c)
	}
	since, begun := l.await(ctx, c)
	if !begun {
		return nil
	}
	close(loaded)
	follow := bus.FollowConfig{Stream: bus.StreamAlerts, Since: since, Created: l.at.Created, Logger: l.log}
	if since.IsZero() {
		follow.Start = l.at.Seq + 1
	}
	follow.Renewed = func(created time.Time) (uint64, time.Time) {
		l.at = inbox.Position{Created: created}
		return 0, time.Time{}
	}
	return bus.Follow(ctx, c, follow, func(m bus.Message) error {
		l.take(ctx, c, m)
		return nil
	})
}

// await tries to begin until it can, or until the connection ends.
func (l *link) await(ctx context.Context, c *bus.Conn) (since time.Time, begun bool) {
	for !l.known {
		var err error
		if since, err = l.begin(ctx, c); err == nil {
			break
		}
		l.log.Debug("the alerts can't be read yet", "error", err)
		pause(ctx)
		if ctx.Err() != nil || c.NC.IsClosed() {
			return time.Time{}, false
		}
	}
	return since, true
}

// begin finds where to begin. A time means: with the first alert after it.
func (l *link) begin(ctx context.Context, c *bus.Conn) (since time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	if !c.Connected() {
		return time.Time{}, bus.ErrAway
	}
	s, err := c.JS.Stream(ctx, bus.StreamAlerts)
	if err != nil {
		return time.Time{}, fmt.Errorf("look at the alerts: %w", err)
	}
	info := s.CachedInfo()
	at, found, err := l.load(ctx, c)
	if err != nil {
		return time.Time{}, err
	}
	l.silences.load(ctx, c)
	end := inbox.Position{Seq: info.State.LastSeq, Created: info.Created}
	switch {
	case found && at.Created.Equal(info.Created):
		l.at = at
	case found: // the stream was made anew: all of it is news
		l.at = inbox.Position{Created: info.Created}
	default:
		since = time.Now().Add(-inbox.FirstLookback)
		l.at = inbox.Position{Created: info.Created}
		if info.State.Msgs > 0 && info.State.LastTime.After(since) {
			return since, nil // the place is that of the first alert, not known yet
		}
		since, l.at = time.Time{}, end
		if _, err := l.claim(ctx, c, l.at); err != nil {
			return time.Time{}, err
		}
	}
	l.known = true
	l.hand(arrival{at: l.at, past: true})
	l.recall(ctx, c)
	if l.at.Seq >= end.Seq || info.State.Msgs == 0 {
		l.isReady()
	}
	return since, nil
}

// recall hands over the alerts that the client was delivered last, before this
// process started. Without them a revision of one is ignored.
func (l *link) recall(ctx context.Context, c *bus.Conn) {
	back := min(lookBack, l.at.Seq)
	if back == 0 {
		return
	}
	messages, err := c.StoredFrom(ctx, bus.StreamAlerts, l.at.Seq+1-back, lookBack)
	if err != nil {
		l.log.Debug("cannot read the alerts that were delivered before", "error", err)
	}
	for _, m := range messages {
		var a alert.Alert
		if m.Seq <= l.at.Seq && json.Unmarshal(m.Data, &a) == nil {
			l.hand(arrival{alert: display.Alert(a, l.mask), at: l.at, known: true})
		}
	}
}

func (l *link) isReady() {
	if !l.ready {
		l.ready = true
		close(l.caughtUp)
	}
}

// take hands one alert on.
func (l *link) take(ctx context.Context, c *bus.Conn, m bus.Message) {
	if !l.known {
		// The first alert of a client that was never seen: what comes from here
		// on is kept for it, also when it ends before it asks.
		l.known = true
		saving, cancel := context.WithTimeout(ctx, inbox.ClaimTimeout)
		if _, err := l.claim(saving, c, inbox.Position{Seq: m.Seq - 1, Created: l.at.Created}); err != nil && ctx.Err() == nil {
			l.log.Warn("the cursor is not saved yet", "error", err)
		}
		cancel()
	}
	l.at.Seq = m.Seq
	var a alert.Alert
	switch err := json.Unmarshal(m.Data, &a); {
	case err != nil:
		l.log.Warn("skipped what is no alert", "subject", m.Subject, "sequence", m.Seq, "error", err)
		l.hand(arrival{at: l.at, past: true})
	case !l.shows(a):
		l.hand(arrival{at: l.at, past: true})
	default:
		a.Seq = m.Seq
		l.hand(arrival{alert: display.Alert(a, l.mask), at: l.at, news: l.ready})
	}
	if m.Pending == 0 {
		l.isReady()
	}
}
