package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/clean"
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
		a, err = g.past().alert(ctx, id)
		if errors.Is(err, errNotFound) {
			err = errors.New(`alert_id must be the id of an alert of the last 7 days: observe {"what":"alerts","since_seconds":604800} shows them`)
		}
		return a, err
	}
}

// isKey says whether an alert of the history has that dedup key, which holds a
// cutMark: a page may have put it there.
func (p past) isKey(ctx context.Context, key string) (found bool, err error) {
	err = p.read(ctx, bus.StreamAlerts, time.Now().Add(-maxSince*time.Second), func(m bus.Message) {
		var a alert.Alert
		if !found && bytes.Contains(m.Data, []byte(cutMark)) && json.Unmarshal(m.Data, &a) == nil {
			found = clean.Alert(a, p.mask).DedupKey == key
		}
	})
	return found, err
}

// errNotFound says that no alert of the history has an id.
var errNotFound = errors.New("no alert of the last 7 days has that id")

// alert finds an alert in the history, unless there it is told already that it is
// over or worse by now.
func (p past) alert(ctx context.Context, id string) (a alert.Alert, err error) {
	var found bool
	var ended error
	err = p.read(ctx, bus.StreamAlerts, time.Now().Add(-maxSince*time.Second), func(m bus.Message) {
		var next alert.Alert
		if !found && !bytes.Contains(m.Data, []byte(id)) || json.Unmarshal(m.Data, &next) != nil {
			return
		}
		next = clean.Alert(next, p.mask)
		switch {
		case next.ID == id:
			a, found = next, true
		case found && ended == nil && silence.Acknowledge(a, "", a.Timestamp).EndedBy(next):
			ended = fmt.Errorf("alert %s came back worse, as %s: acknowledge that one", id, next.ID)
			if next.Resolves != "" {
				ended = fmt.Errorf("alert %s is over already: %s says so", id, next.ID)
			}
		}
	})
	if err == nil && !found {
		err = errNotFound
	}
	return a, cmp.Or(err, ended)
}
