package gateway

import (
	"context"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/cursor"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// drain takes the pending alerts out into the second block, and claims them
// before it does. A client that ends between the two has missed an alert, which
// stays in the history; a client that goes on is never told one twice, also when
// several readers serve it. What comes in while it claims is left for the next:
// another reader may be claiming that.
//
// A call that ends meanwhile is told nothing, and what it claimed waits here.
func (g *gateway) drain(call context.Context) (string, error) {
	select {
	case g.draining <- struct{}{}: // of two at once, one would take what the other has claimed for told
		defer func() { <-g.draining }()
	case <-call.Done():
		return "", call.Err()
	}
	var pending int
	var at cursor.Position
	err := g.session.do(g.life, func(s *session, _ time.Time) { pending, at = s.inbox.Len(), s.at })
	if err != nil || pending == 0 {
		return "", err
	}
	told, err := g.saver.save(g.life, at)
	if err != nil {
		g.log.Warn("the alerts can't be marked as told yet: a restart now would tell them again", "error", err)
	}
	var alerts []alert.Alert
	err = g.session.do(g.life, func(s *session, _ time.Time) {
		switch {
		case !s.at.Created.Equal(at.Created): // the stream was made anew: what was claimed has no place any more
			at.Seq = 0
		case told.Created.Equal(at.Created):
			s.inbox.DropTold(told.Seq)
		}
		s.inbox.Own(at.Seq)
		if call.Err() == nil {
			alerts = s.inbox.Drain(at.Seq)
		}
	})
	if err != nil || len(alerts) == 0 {
		return "", err
	}
	return alert.Block(alerts)
}
