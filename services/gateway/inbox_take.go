package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// drain takes the pending alerts out into the second block, and claims them
// before it does. A client that ends between the two has missed an alert, which
// stays in the history; a client that goes on is never told one twice, also when
// several readers serve it. What has no room in the block stays in the inbox. What comes in while it claims is left for the next:
// another reader may be claiming that.
//
// A call that ends meanwhile is told nothing, and what it claimed waits here.
func (g *gateway) drain(call context.Context) (string, error) {
	// Of two at once, one would take what the other has claimed for told.
	if err := g.takeTurn(call); err != nil {
		return "", err
	}
	defer g.endTurn()
	var pending int
	var at inbox.Position
	err := g.session.do(g.life, func(s *session, _ time.Time) { pending, at = s.inbox.Len(), s.at })
	if err != nil || pending == 0 {
		return "", err
	}
	told, err := g.saver.save(g.life, at)
	if err != nil {
		g.log.Warn("the alerts can't be marked as told yet: a restart now would tell them again", "error", err)
	}
	var block string
	var writing error
	err = g.session.do(g.life, func(s *session, _ time.Time) {
		switch {
		case !s.at.Created.Equal(at.Created): // the stream was made anew: what was claimed has no place any more
			at.Seq = 0
		case told.Created.Equal(at.Created):
			s.inbox.DiscardDelivered(told.Seq)
		}
		s.inbox.MarkClaimed(at.Seq)
		if call.Err() == nil {
			block, writing = drainBlock(s.inbox, at.Seq)
		}
	})
	return block, errors.Join(err, writing)
}

// drainBlock takes the alerts that came up to a position out of an inbox, as many as
// have room in a block. Its summary line says how many are still pending, and how many
// were evicted since the last block.
func drainBlock(b *inbox.Inbox, seq uint64) (block string, err error) {
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
		list := truncate.List(objects, maxAlertsBlock-len(alert.BlockOf(digest, nil, notes...)))
		block = alert.BlockOf(digest, truncate.Join(list), notes...)
		return len(list), nil
	})
	return block, err
}

// takeTurn waits until no other call compares the inbox with the cursor.
func (g *gateway) takeTurn(call context.Context) error {
	select {
	case g.draining <- struct{}{}:
		return nil
	case <-call.Done():
		return call.Err()
	}
}

func (g *gateway) endTurn() { <-g.draining }

// forgetTold drops what another reader of the client, a hook or a wait, was told
// meanwhile, and returns how many alerts pend still. Where the bus can't say, all
// do.
func (g *gateway) forgetTold(call context.Context) (pending int) {
	if g.takeTurn(call) != nil {
		return 0
	}
	defer g.endTurn()
	count := func(s *session, _ time.Time) { pending = s.inbox.Len() }
	if g.session.do(g.life, count) != nil || pending == 0 {
		return 0
	}
	c := g.link.conn.Load()
	if c == nil || !c.Connected() {
		return pending
	}
	ctx, cancel := context.WithTimeout(call, inbox.ClaimTimeout)
	defer cancel()
	told, found, err := g.link.load(ctx, c)
	if err != nil || !found {
		return pending
	}
	err = g.session.do(g.life, func(s *session, now time.Time) {
		if told.Created.Equal(s.at.Created) {
			s.inbox.DiscardDelivered(told.Seq)
		}
		count(s, now)
	})
	if err != nil {
		return 0
	}
	return pending
}
