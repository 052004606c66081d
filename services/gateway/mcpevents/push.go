package mcpevents

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// push is one stream to a client: which alerts go out when, and with which
// cursor. Package stream decides as it does for notifications; a batch goes out
// as several events in a row, in the order of the alerts' places.
//
// It is told the time, and owns no timer: its owner calls due when next says.
type push struct {
	id     json.RawMessage
	filter filter
	stream *notifier.Notifier
	// seen is the newest place that was looked at. safe is the newest from which
	// the client would get all that it has not been sent: before the first alert
	// that is held back.
	seen, safe Position
}

func newPush(id json.RawMessage, f filter, at Position) *push {
	p := &push{id: id, filter: f, stream: notifier.New(), seen: at, safe: at}
	p.stream.Enable(f.config)
	return p
}

// full says that no alert can be taken: one that finds no room in the batch
// would be lost to the client. It waits on the bus instead.
func (p *push) full() bool { return p.stream.Full() }

// take looks at what came and returns what goes out.
func (p *push) take(a Arrival, now time.Time) ([][]byte, error) {
	var out [][]byte
	if p.seen.skips(a.At) {
		if p.stream.Stats().Pending == 0 || !a.At.Created.Equal(p.safe.Created) {
			p.safe = a.At.before()
		}
		active, err := p.active(true)
		if err != nil {
			return nil, err
		}
		out = append(out, active)
	}
	p.seen = a.At
	var notes []notifier.Notification
	if a.Alert != nil && (p.filter.app == "" || p.filter.app == a.Alert.App) {
		notes = p.stream.Offer(*a.Alert, now)
	}
	return p.emit(out, notes)
}

// next returns when due has something, or false when nothing is held back.
func (p *push) next() (time.Time, bool) { return p.stream.Next() }

// due returns the batch if its time has come, without those that are hushed by
// now.
func (p *push) due(now time.Time, hushed func(alert.Alert) bool) ([][]byte, error) {
	p.stream.SuppressWhere(hushed)
	return p.emit(nil, p.stream.Due(now))
}

// emit appends the events of notifications, at most one of which was made since
// the last call. An event that is not the last of its batch has the cursor from
// before the batch: a client that loses the rest of it gets it again.
func (p *push) emit(out [][]byte, notes []notifier.Notification) ([][]byte, error) {
	held := p.safe
	switch {
	case p.stream.Stats().Pending == 0:
		p.safe = p.seen
	case len(notes) > 0: // the batch was full, and what came last did not go with it
		p.safe = p.seen.before()
	}
	for _, n := range notes {
		alerts := slices.Clone(n.Alerts)
		slices.SortStableFunc(alerts, func(a, b alert.Alert) int { return cmp.Compare(a.Seq, b.Seq) })
		for i, a := range alerts {
			o := occurrenceOf(a)
			o.Cursor, o.Meta = held.Cursor(), &meta{p.id}
			if i == len(alerts)-1 {
				o.Cursor = p.safe.Cursor()
			}
			l, err := line(noteEvent, o)
			if err != nil {
				return nil, err
			}
			out = append(out, l)
		}
	}
	return out, nil
}

// active confirms the subscription, and tells of a gap when there is one.
func (p *push) active(truncated bool) ([]byte, error) {
	return line(noteActive, place{Cursor: p.safe.Cursor(), Truncated: &truncated, Meta: meta{p.id}})
}

// heartbeat says that all is looked at up to here.
func (p *push) heartbeat() ([]byte, error) {
	return line(noteHeartbeat, place{Cursor: p.safe.Cursor(), Meta: meta{p.id}})
}

// failure says that something is wrong which may pass.
func (p *push) failure(err error) ([]byte, error) {
	t := trouble{Meta: meta{p.id}}
	t.Error.Code, t.Error.Message = jsonrpc.CodeInternalError, err.Error()
	return line(noteError, t)
}
