package delivery

import (
	"context"
	"encoding/json"
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
	// recentDelivered is how many alerts before the client's position are read, for revisions
	// and resolutions of them.
	recentDelivered = 64
)

// streamReader is how far the client has read the stream of alerts. It outlives a session.
type streamReader struct {
	// position is the position of the newest alert passed on, if hasPosition.
	position    bus.Position
	hasPosition bool
	caughtUp    bool
}

// enqueue passes an arrival to the loop.
func (c *Client) enqueue(a arrival) {
	select {
	case c.loop.arrivals <- a:
	case <-c.life.Context().Done():
	}
}

// follow passes on every alert after the client's position, in order. It first loads
// the silences, and closes loaded.
func (c *Client) follow(ctx context.Context, session *bus.Session, loaded chan<- struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.identified:
	}
	r := &c.reader
	if r.hasPosition { // otherwise findStart loads them
		c.watch.Load(ctx, session)
	}
	var since time.Time
	if !r.hasPosition {
		err := busclient.Retry(ctx, session, startTimeout, c.log, "read the alerts", func(ctx context.Context) (err error) {
			since, err = c.findStart(ctx, session)
			return err
		})
		if err != nil {
			return err
		}
	}
	close(loaded)
	return session.Follow(ctx, bus.FollowConfig{
		Stream: bus.StreamAlerts, After: r.position, Since: since, Logger: c.log,
		Recreated: func(beginning bus.Position) { r.position = beginning },
	}, func(m bus.Message) error {
		c.receive(ctx, session, m)
		return nil
	})
}

// findStart finds the position to start from. If it returns a time, that is the first alert
// after the time.
func (c *Client) findStart(ctx context.Context, session *bus.Session) (since time.Time, err error) {
	state, err := session.State(ctx, bus.StreamAlerts)
	if err != nil {
		return time.Time{}, err
	}
	stored, found, err := c.loadPosition(ctx, session)
	if err != nil {
		return time.Time{}, err
	}
	c.watch.Load(ctx, session)
	r := &c.reader
	end := state.End()
	switch {
	case found: // in a recreated stream, every alert is news
		r.position = stored.InStream(state.Created)
	default:
		since = time.Now().Add(-inbox.FirstLookback)
		r.position = bus.Position{Created: state.Created}
		if state.Messages > 0 && state.LastTime.After(since) {
			return since, nil // the position is that of the first alert, not known yet
		}
		since, r.position = time.Time{}, end
		if _, err := c.claimOn(ctx, session, r.position); err != nil {
			return time.Time{}, err
		}
	}
	r.hasPosition = true
	c.enqueue(arrival{position: r.position, positionOnly: true})
	c.enqueueDelivered(ctx, session)
	if r.position.Seq >= end.Seq || state.Messages == 0 {
		c.markCaughtUp()
	}
	return since, nil
}

// enqueueDelivered passes on the alerts that were delivered to the client last, before this process
// started. Without them, revisions of them would be ignored.
func (c *Client) enqueueDelivered(ctx context.Context, session *bus.Session) {
	position := c.reader.position
	back := min(recentDelivered, position.Seq)
	if back == 0 {
		return
	}
	messages, err := session.Read(ctx, bus.StreamAlerts, position.Seq+1-back, recentDelivered)
	if err != nil {
		c.log.Debug("cannot read the alerts that were delivered before", "error", err)
	}
	for _, m := range messages {
		var a alert.Alert
		if m.Seq <= position.Seq && json.Unmarshal(m.Data, &a) == nil {
			c.enqueue(arrival{alert: display.Alert(a, c.mask), position: position, wasDelivered: true})
		}
	}
}

func (c *Client) markCaughtUp() {
	if !c.reader.caughtUp {
		c.reader.caughtUp = true
		close(c.caughtUp)
	}
}

// receive passes one message of the stream to the loop.
func (c *Client) receive(ctx context.Context, session *bus.Session, m bus.Message) {
	r := &c.reader
	if !r.hasPosition {
		// The first alert of a new client. From here on alerts are kept for it, even if it
		// ends before it calls observe.
		r.hasPosition = true
		saving, cancel := context.WithTimeout(ctx, inbox.ClaimTimeout)
		if _, err := c.claimOn(saving, session, r.position.At(m.Seq-1)); err != nil && ctx.Err() == nil {
			c.log.Warn("cannot store the inbox position yet", "error", err)
		}
		cancel()
	}
	r.position.Seq = m.Seq
	var a alert.Alert
	switch err := json.Unmarshal(m.Data, &a); {
	case err != nil:
		c.log.Warn("skipped a message that is not an alert", "subject", m.Subject, "sequence", m.Seq, "error", err)
		c.enqueue(arrival{position: r.position, positionOnly: true})
	case !c.visible(a):
		c.enqueue(arrival{position: r.position, positionOnly: true})
	default:
		a.Seq = m.Seq
		c.enqueue(arrival{alert: display.Alert(a, c.mask), position: r.position, isNew: r.caughtUp})
	}
	if m.Pending == 0 {
		c.markCaughtUp()
	}
}
