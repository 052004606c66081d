package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// alertNamed finds an alert by its id: where it pends, or in the history. Pending
// it is as bad as its worst repetition, and they are acknowledged with it.
func (g *gateway) alertNamed(ctx context.Context, id string) (a alert.Alert, err error) {
	var pends bool
	err = g.session.do(g.life, func(s *session, _ time.Time) { a, pends = s.inbox.Find(id) })
	switch {
	case err != nil:
		return a, err
	case pends && a.Resolved:
		return a, fmt.Errorf("alert %s is over already", a.ID)
	case pends:
		a.ID = id
		return a, nil
	default:
		if err := g.connected(); err != nil {
			return a, err
		}
		a, err = g.silences().Alert(ctx, id)
		if errors.Is(err, silence.ErrNoAlert) || !g.shows(a) {
			a = alert.Alert{}
			err = errors.New(`alert_id must be the id of an alert of the last 7 days: observe {"what":"alerts","since_seconds":604800} shows them`)
		}
		return a, err
	}
}
