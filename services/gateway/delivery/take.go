package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// MaxBlock bounds the alerts block of an answer, in bytes: a model's context has no room
// for more, and clients reject it.
const MaxBlock = 24 << 10

// Take removes the pending alerts from the inbox and returns them as an alerts block, or
// "" if there are none. It claims them first, by advancing the stored position, so that a
// client with several readers never gets an alert twice. A client that ends between the two
// steps has missed the alerts, which stay in history. Alerts that do not fit in the block
// stay in the inbox, as do those that arrive during the claim: another reader may be
// claiming them.
//
// A call that ends in the meantime returns nothing, and what it claimed stays in the inbox.
func (c *Client) Take(call context.Context) (block string, err error) {
	// Two calls at once would each treat what the other has claimed as delivered.
	if err := c.lockTaking(call); err != nil {
		return "", err
	}
	defer c.unlockTaking()
	var pending int
	var newest bus.Position
	err = c.Do(func(s *State, _ time.Time) { pending, newest = s.Inbox.Len(), s.position })
	if err != nil || pending == 0 {
		return "", err
	}
	before, err := c.saver.save(c.life.Context(), newest)
	if err != nil {
		c.log.Warn("cannot store that the alerts are delivered yet: after a restart now they would be delivered again", "error", err)
	}
	var encoding error
	err = c.Do(func(s *State, _ time.Time) {
		switch {
		case !s.position.Created.Equal(newest.Created): // the stream was recreated, so the claimed alerts have no position
			newest.Seq = 0
		case before.Created.Equal(newest.Created):
			s.Inbox.DiscardDelivered(before.Seq)
		}
		s.Inbox.MarkClaimed(newest.Seq)
		if call.Err() == nil {
			block, encoding = takeBlock(s.Inbox, newest.Seq)
		}
	})
	return block, errors.Join(err, encoding)
}

// takeBlock takes the alerts up to a sequence out of an inbox, as many as fit in a block.
// The summary line counts those still pending, and those evicted since the last block.
func takeBlock(b *inbox.Inbox, seq uint64) (block string, err error) {
	evicted := b.EvictedSinceTake()
	err = b.TakeWithin(seq, func(digest []alert.Alert, left int) (room int, err error) {
		var notes []string
		if left > 0 {
			notes = append(notes, fmt.Sprintf("%d more pending: call observe again", left))
		}
		if evicted > 0 {
			notes = append(notes, fmt.Sprintf(`%d evicted: observe {"what":"alerts"} lists them`, evicted))
		}
		objects, err := truncate.Encode(digest)
		if err != nil {
			return 0, err
		}
		list := truncate.List(objects, MaxBlock-len(alert.BlockOf(digest, nil, notes...)))
		block = alert.BlockOf(digest, truncate.Join(list), notes...)
		return len(list), nil
	})
	return block, err
}

// lockTaking waits until no other call compares the inbox with the stored position.
func (c *Client) lockTaking(call context.Context) error {
	select {
	case c.takeLock <- struct{}{}:
		return nil
	case <-call.Done():
		return call.Err()
	}
}

func (c *Client) unlockTaking() { <-c.takeLock }

// DiscardDelivered drops the alerts that another reader of the client, a hook or tocsin
// wait, has delivered, and returns how many are still pending. Without an answer of the bus
// it drops none.
func (c *Client) DiscardDelivered(call context.Context) (pending int) {
	if c.lockTaking(call) != nil {
		return 0
	}
	defer c.unlockTaking()
	count := func(s *State, _ time.Time) { pending = s.Inbox.Len() }
	if c.Do(count) != nil || pending == 0 {
		return 0
	}
	session, err := c.bus.Session()
	if err != nil {
		return pending
	}
	ctx, cancel := context.WithTimeout(call, inbox.ClaimTimeout)
	defer cancel()
	delivered, found, err := c.loadPosition(ctx, session)
	if err != nil || !found {
		return pending
	}
	err = c.Do(func(s *State, now time.Time) {
		if delivered.Created.Equal(s.position.Created) {
			s.Inbox.DiscardDelivered(delivered.Seq)
		}
		count(s, now)
	})
	if err != nil {
		return 0
	}
	return pending
}

// Clear empties the inbox without delivering its alerts, and returns how many there were.
func (c *Client) Clear(call context.Context) (cleared int, err error) {
	c.DiscardDelivered(call)
	var newest bus.Position
	err = c.Do(func(s *State, _ time.Time) { cleared, newest = s.Inbox.Clear(), s.position })
	if err == nil && cleared > 0 {
		if _, saveErr := c.saver.save(c.life.Context(), newest); saveErr != nil {
			c.log.Warn("cannot store that the inbox was emptied yet", "error", saveErr)
		}
	}
	return cleared, err
}
