package mcpevents

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// push is one stream to a client. It decides which alerts are sent, when, and with which
// cursor. Its notifier decides as for notifications; a batch is sent as several events in a
// row, in the order of the alerts' positions.
//
// It owns no timer: its owner passes the time, and calls due when next says.
type push struct {
	id       json.RawMessage
	filter   filter
	notifier *notifier.Notifier
	// processed is the newest position that was processed. resumeFrom is the newest one from which the
	// client would receive everything that it has not been sent: it is before the first
	// pending alert.
	processed, resumeFrom bus.Position
}

func newPush(id json.RawMessage, f filter, start bus.Position) *push {
	p := &push{id: id, filter: f, notifier: notifier.New(), processed: start, resumeFrom: start}
	p.notifier.Enable(f.config)
	return p
}

// isFull reports that no alert can be taken, because it might be dropped from the batch. It
// waits on the bus instead.
func (p *push) isFull() bool { return p.notifier.Full() }

// process records an arrival and returns the lines to send.
func (p *push) process(a Arrival, now time.Time) ([][]byte, error) {
	var out [][]byte
	if hasGap(p.processed, a.Position) {
		if p.notifier.Stats().Pending == 0 || !a.Position.SameStream(p.resumeFrom) {
			p.resumeFrom = positionBefore(a.Position)
		}
		active, err := p.active(true)
		if err != nil {
			return nil, err
		}
		out = append(out, active)
	}
	p.processed = a.Position
	var notifications []notifier.Notification
	if a.Alert != nil && (p.filter.app == "" || p.filter.app == a.Alert.App) {
		notifications = p.notifier.Offer(*a.Alert, now)
	}
	return p.emit(out, notifications)
}

// next returns when due has something to send. ok is false when nothing is pending.
func (p *push) next() (at time.Time, ok bool) { return p.notifier.Next() }

// due returns the lines of the batch if its time has come, without alerts that were
// suppressed in the meantime.
func (p *push) due(now time.Time, suppressed func(alert.Alert) bool) ([][]byte, error) {
	p.notifier.SuppressWhere(suppressed)
	return p.emit(nil, p.notifier.Due(now))
}

// emit appends the events of notifications, at most one of them made since the last
// call. Every event of a batch but the last has the cursor from before the batch: a client
// that loses the rest receives it again.
func (p *push) emit(out [][]byte, notifications []notifier.Notification) ([][]byte, error) {
	beforeBatch := p.resumeFrom
	switch {
	case p.notifier.Stats().Pending == 0:
		p.resumeFrom = p.processed
	case len(notifications) > 0: // the batch was full, and the newest alert is not in it
		p.resumeFrom = positionBefore(p.processed)
	}
	for _, n := range notifications {
		alerts := slices.Clone(n.Alerts)
		slices.SortStableFunc(alerts, func(a, b alert.Alert) int { return cmp.Compare(a.Seq, b.Seq) })
		for i, a := range alerts {
			o := occurrenceOf(a)
			o.Cursor, o.Meta = encodeCursor(beforeBatch), &meta{p.id}
			if i == len(alerts)-1 {
				o.Cursor = encodeCursor(p.resumeFrom)
			}
			line, err := notificationLine(notificationEvent, o)
			if err != nil {
				return nil, err
			}
			out = append(out, line)
		}
	}
	return out, nil
}

// active returns the line that confirms the subscription, or reports a gap.
func (p *push) active(truncated bool) ([]byte, error) {
	return notificationLine(notificationActive, progress{Cursor: encodeCursor(p.resumeFrom), Truncated: &truncated, Meta: meta{p.id}})
}

// heartbeat returns the line that says up to which position all alerts were processed.
func (p *push) heartbeat() ([]byte, error) {
	return notificationLine(notificationHeartbeat, progress{Cursor: encodeCursor(p.resumeFrom), Meta: meta{p.id}})
}

// failure returns the line about an error after which the stream continues.
func (p *push) failure(err error) ([]byte, error) {
	f := failure{Meta: meta{p.id}}
	f.Error.Code, f.Error.Message = jsonrpc.CodeInternalError, err.Error()
	return notificationLine(notificationError, f)
}
