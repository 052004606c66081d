package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/clean"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/silence"
	"github.com/tocsin-bus/tocsin/shared/silences"
)

// maxRead is how many alerts one look into an inbox reads: the newest. The others
// are counted as left out.
const maxRead = 500

// lookBack is how many alerts are read beside them that were delivered before: one
// that was not may be caused by them, or revise one of them.
const lookBack = 64

// reader looks into a client's inbox once. It follows nothing and keeps nothing:
// it is for a process that lives for milliseconds.
type reader struct {
	conn *bus.Conn
	// client is the key of the inbox.
	client string
	mask   *redact.Engine
	// shows says which alerts may be seen by the client.
	shows func(alert.Alert) bool
}

// waiting is what a client was not told yet.
type waiting struct {
	box *inbox.Inbox
	// after is the place of the last alert before those that were read, at that
	// of the last one read, told up to where the client was told.
	after, at inbox.Position
	told      uint64
	// end is the place of the stream's newest alert.
	end inbox.Position
	// stale is the sequence of the last alert that came before inbox.FirstLookback.
	stale uint64
}

// read looks what waits for the client. It takes two round trips where there is
// nothing, which is most often, and one more where there is something.
func (r *reader) read(ctx context.Context) (*waiting, error) {
	var info *jetstream.StreamInfo
	var told inbox.Position
	var found bool
	var both errgroup.Group
	both.Go(func() error {
		s, err := r.conn.JS.Stream(ctx, bus.StreamAlerts)
		if err != nil {
			return fmt.Errorf("look at the alerts: %w", err)
		}
		info = s.CachedInfo()
		return nil
	})
	both.Go(func() (err error) {
		told, found, err = inbox.LoadPosition(ctx, r.conn, r.client)
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, err
	}
	state := info.State
	w := &waiting{box: inbox.New(), end: inbox.Position{Seq: state.LastSeq, Created: info.Created}}
	if found && told.Created.Equal(info.Created) { // else the stream was made anew: all of it is news
		w.told = told.Seq
	}
	w.told = max(w.told, state.FirstSeq-min(state.FirstSeq, 1)) // what is gone needs no telling
	w.after = inbox.Position{Seq: w.told, Created: info.Created}
	if state.LastSeq > maxRead {
		w.after.Seq = max(w.after.Seq, state.LastSeq-maxRead)
	}
	w.at = w.after
	if state.Msgs > 0 && w.after.Seq < state.LastSeq {
		if err := r.fill(ctx, w, found); err != nil {
			return nil, err
		}
	}
	if !found {
		return w, r.begin(ctx, w)
	}
	if w.box.Len() == 0 && w.at.Seq > w.told { // all of it is silenced, or no alert
		_, _, err := r.take(ctx, w)
		return w, err
	}
	return w, nil
}

// fill reads the alerts after w.after. Those of a client that was never seen begin
// inbox.FirstLookback ago.
func (r *reader) fill(ctx context.Context, w *waiting, seen bool) error {
	var back uint64
	if seen && w.after.Seq == w.told {
		back = min(lookBack, w.told)
	}
	var msgs []bus.Message
	var silenced silence.Set
	var both errgroup.Group
	both.Go(func() (err error) {
		msgs, err = r.conn.StoredFrom(ctx, bus.StreamAlerts, w.after.Seq+1-back, maxRead+int(back))
		return err
	})
	both.Go(func() error {
		set, err := silences.Read(ctx, r.conn)
		if err == nil {
			silenced = set
		}
		return ctx.Err() // what can't be read silences nothing: alerts are worth more
	})
	if err := both.Wait(); err != nil {
		return err
	}
	now := time.Now()
	n := 0
	for n < len(msgs) && msgs[n].Seq <= w.after.Seq {
		n++
	}
	r.remember(w, msgs[:n], silenced, now)
	for _, m := range msgs[n:] {
		w.at.Seq = m.Seq
		if now.Sub(m.Time) > inbox.FirstLookback {
			w.stale = m.Seq
			if !seen {
				w.after.Seq, w.told = m.Seq, m.Seq
				continue
			}
		}
		a, ok := r.decode(m)
		if !ok { // a gateway says so, and who looks once has no log
			continue
		}
		// A gateway writes down which acknowledgements end by it; this one is gone by then.
		silenced.Acks, _ = silenced.Acks.Over(a)
		if _, hushed := silenced.Hushes(a, now); hushed {
			w.box.Suppress(a)
		} else {
			w.box.Offer(a)
		}
	}
	return nil
}

// remember has the inbox know what the client was told before, but for what was
// held back then, as far as that is known now.
func (r *reader) remember(w *waiting, msgs []bus.Message, silenced silence.Set, now time.Time) {
	var told []alert.Alert
	for _, m := range msgs {
		a, ok := r.decode(m)
		if !ok {
			continue
		}
		w.box.RecordSeverity(a)
		if _, hushed := silenced.Hushes(a, now); !hushed {
			told = append(told, a)
		}
	}
	w.box.RecordDelivered(told)
}

// decode is the alert of a message, fit to be told. One that may not be seen is none.
func (r *reader) decode(m bus.Message) (a alert.Alert, ok bool) {
	if json.Unmarshal(m.Data, &a) != nil || !r.shows(a) {
		return a, false
	}
	a.Seq = m.Seq
	return clean.Alert(a, r.mask), true
}

// begin saves where the inbox of a client begins that was never seen, so that it
// keeps what comes from there on however late it asks again.
func (r *reader) begin(ctx context.Context, w *waiting) error {
	w.told = w.after.Seq
	_, err := inbox.Claim(ctx, r.conn, r.client, w.after)
	return err
}

// take takes what was read for this reader alone, by moving the cursor past it,
// and returns what no other reader was faster to take: the alerts as a digest,
// and how many more there were than could be read or kept. When it fails it may
// have moved the cursor; what is not told then stays in the history.
func (r *reader) take(ctx context.Context, w *waiting) (alerts []alert.Alert, left int, err error) {
	// The bus has just answered: it is given the time that a gateway gives it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inbox.ClaimTimeout)
	defer cancel()
	before, err := inbox.Claim(ctx, r.conn, r.client, w.at)
	if err != nil {
		return nil, 0, err
	}
	if before.Created.Equal(w.at.Created) {
		w.box.DiscardDelivered(before.Seq)
		w.told = max(w.told, before.Seq)
	}
	if w.told >= w.at.Seq {
		return nil, 0, nil
	}
	left = int(w.box.Evicted())
	if w.told < w.after.Seq {
		left += int(w.after.Seq - w.told)
	}
	return liveFirst(w.box.Take(w.at.Seq)), left, nil
}

// liveFirst puts what is over behind what is still on, however severe it was: a
// brief has no room for all.
func liveFirst(alerts []alert.Alert) []alert.Alert {
	over := func(a alert.Alert) int {
		if a.Over() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(alerts, func(a, b alert.Alert) int { return cmp.Compare(over(a), over(b)) })
	return alerts
}
