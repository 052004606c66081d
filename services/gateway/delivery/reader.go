package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
)

const (
	// startTimeout bounds one attempt to find the position to start from.
	startTimeout = 5 * time.Second
	// recalled is how many alerts before the client's position are read, for revisions
	// and resolutions of them.
	recalled = 64
)

// reader is where the client is in the stream of alerts. It outlives a connection.
type reader struct {
	// position is that of the newest alert handed on; known reports whether there is
	// such a position.
	position inbox.Position
	known    bool
	caughtUp bool
}

// hand hands an alert to the loop.
func (c *Client) hand(a arrival) {
	select {
	case c.loop.arrivals <- a:
	case <-c.life.Context().Done():
	}
}

// follow hands on every alert after the client's position, in order. It first loads
// the silences, and closes loaded.
func (c *Client) follow(ctx context.Context, conn *bus.Conn, loaded chan<- struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.identified:
	}
	r := &c.reader
	if r.known { // else start does
		c.watch.Load(ctx, conn)
	}
	since, started := c.awaitStart(ctx, conn)
	if !started {
		return nil
	}
	close(loaded)
	follow := bus.FollowConfig{Stream: bus.StreamAlerts, Since: since, Created: r.position.Created, Logger: c.log}
	if since.IsZero() {
		follow.Start = r.position.Seq + 1
	}
	follow.Renewed = func(created time.Time) (uint64, time.Time) {
		r.position = inbox.Position{Created: created}
		return 0, time.Time{}
	}
	return bus.Follow(ctx, conn, follow, func(m bus.Message) error {
		c.read(ctx, conn, m)
		return nil
	})
}

// awaitStart retries start until it succeeds, or until the connection ends.
func (c *Client) awaitStart(ctx context.Context, conn *bus.Conn) (since time.Time, started bool) {
	for !c.reader.known {
		var err error
		if since, err = c.start(ctx, conn); err == nil {
			break
		}
		c.log.Debug("cannot read the alerts yet", "error", err)
		busclient.Pause(ctx)
		if ctx.Err() != nil || conn.NC.IsClosed() {
			return time.Time{}, false
		}
	}
	return since, true
}

// start finds the position to start from. A time means the first alert after it.
func (c *Client) start(ctx context.Context, conn *bus.Conn) (since time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if !conn.Connected() {
		return time.Time{}, bus.ErrAway
	}
	stream, err := conn.JS.Stream(ctx, bus.StreamAlerts)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the state of %s: %w", bus.StreamAlerts, err)
	}
	info := stream.CachedInfo()
	stored, found, err := c.loadPosition(ctx, conn)
	if err != nil {
		return time.Time{}, err
	}
	c.watch.Load(ctx, conn)
	r := &c.reader
	end := inbox.Position{Seq: info.State.LastSeq, Created: info.Created}
	switch {
	case found && stored.Created.Equal(info.Created):
		r.position = stored
	case found: // the stream was recreated: all of it is news
		r.position = inbox.Position{Created: info.Created}
	default:
		since = time.Now().Add(-inbox.FirstLookback)
		r.position = inbox.Position{Created: info.Created}
		if info.State.Msgs > 0 && info.State.LastTime.After(since) {
			return since, nil // the position is that of the first alert, not known yet
		}
		since, r.position = time.Time{}, end
		if _, err := c.claimOn(ctx, conn, r.position); err != nil {
			return time.Time{}, err
		}
	}
	r.known = true
	c.hand(arrival{position: r.position, empty: true})
	c.recall(ctx, conn)
	if r.position.Seq >= end.Seq || info.State.Msgs == 0 {
		c.setCaughtUp()
	}
	return since, nil
}

// recall hands over the alerts that the client was delivered last, before this process
// started. Without them, revisions of them would be ignored.
func (c *Client) recall(ctx context.Context, conn *bus.Conn) {
	position := c.reader.position
	back := min(recalled, position.Seq)
	if back == 0 {
		return
	}
	messages, err := conn.StoredFrom(ctx, bus.StreamAlerts, position.Seq+1-back, recalled)
	if err != nil {
		c.log.Debug("cannot read the alerts that were delivered before", "error", err)
	}
	for _, m := range messages {
		var a alert.Alert
		if m.Seq <= position.Seq && json.Unmarshal(m.Data, &a) == nil {
			c.hand(arrival{alert: display.Alert(a, c.mask), position: position, delivered: true})
		}
	}
}

func (c *Client) setCaughtUp() {
	if !c.reader.caughtUp {
		c.reader.caughtUp = true
		close(c.caughtUp)
	}
}

// read hands on one alert.
func (c *Client) read(ctx context.Context, conn *bus.Conn, m bus.Message) {
	r := &c.reader
	if !r.known {
		// The first alert of a new client: what comes from here on is kept for it, also
		// when it ends before it asks.
		r.known = true
		saving, cancel := context.WithTimeout(ctx, inbox.ClaimTimeout)
		if _, err := c.claimOn(saving, conn, inbox.Position{Seq: m.Seq - 1, Created: r.position.Created}); err != nil && ctx.Err() == nil {
			c.log.Warn("cannot store the inbox position yet", "error", err)
		}
		cancel()
	}
	r.position.Seq = m.Seq
	var a alert.Alert
	switch err := json.Unmarshal(m.Data, &a); {
	case err != nil:
		c.log.Warn("skipped a message that is not an alert", "subject", m.Subject, "sequence", m.Seq, "error", err)
		c.hand(arrival{position: r.position, empty: true})
	case !c.shows(a):
		c.hand(arrival{position: r.position, empty: true})
	default:
		a.Seq = m.Seq
		c.hand(arrival{alert: display.Alert(a, c.mask), position: r.position, news: r.caughtUp})
	}
	if m.Pending == 0 {
		c.setCaughtUp()
	}
}
