package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// maxRead is the number of alerts that one call reads, the newest. Older ones are
// counted as left out.
const maxRead = 500

// lookback is the number of delivered alerts that are read in addition: a pending
// alert may be caused by one of them, or revise it.
const lookback = 64

// reader reads a client's inbox from the bus once. It follows nothing and keeps
// nothing, for a process that lives for milliseconds.
type reader struct {
	bus *bus.Session
	// client is the key of the inbox.
	client string
	mask   *redact.Engine
	// isVisible reports whether the client may see an alert.
	isVisible func(alert.Alert) bool
}

// pendingAlerts are the alerts that were not delivered to a client yet.
type pendingAlerts struct {
	inbox *inbox.Inbox
	// after is the position before the first alert that was read, last the position of
	// the last one.
	after, last bus.Position
	// delivered is the sequence up to which the client's alerts were delivered.
	delivered uint64
	// end is the position of the newest alert in the stream.
	end bus.Position
	// stale is the sequence of the last alert older than [inbox.FirstLookback].
	stale uint64
}

// read returns the client's pending alerts. It takes two round trips if there are none,
// which is the usual case, and one more otherwise.
func (r *reader) read(ctx context.Context) (*pendingAlerts, error) {
	var state bus.State
	var delivered bus.Position
	var found bool
	var both errgroup.Group
	both.Go(func() (err error) {
		state, err = r.bus.State(ctx, bus.StreamAlerts)
		return err
	})
	both.Go(func() (err error) {
		delivered, found, err = inbox.LoadPosition(ctx, r.bus, r.client)
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, err
	}
	p := &pendingAlerts{inbox: inbox.New(), end: state.End()}
	if found {
		p.delivered = delivered.InStream(state.Created).Seq // in a recreated stream, nothing was delivered
	}
	p.delivered = max(p.delivered, max(state.First, 1)-1) // expired alerts are not pending
	p.after = p.end.At(p.delivered)
	if state.Last > maxRead {
		p.after.Seq = max(p.after.Seq, state.Last-maxRead)
	}
	p.last = p.after
	if state.Messages > 0 && p.after.Seq < state.Last {
		if err := r.readAlerts(ctx, p, found); err != nil {
			return nil, err
		}
	}
	if !found {
		return p, r.saveStart(ctx, p)
	}
	if p.inbox.Len() == 0 && p.last.Seq > p.delivered { // all of them are silenced, or no alerts
		_, _, err := r.claim(ctx, p)
		return p, err
	}
	return p, nil
}

// readAlerts adds the alerts after p.after to the inbox. For a new client they begin
// [inbox.FirstLookback] ago.
func (r *reader) readAlerts(ctx context.Context, p *pendingAlerts, known bool) error {
	var before uint64
	if known && p.after.Seq == p.delivered {
		before = min(lookback, p.delivered)
	}
	var msgs []bus.Message
	var silenced silence.Set
	var both errgroup.Group
	both.Go(func() (err error) {
		msgs, err = r.bus.Read(ctx, bus.StreamAlerts, p.after.Seq+1-before, maxRead+int(before))
		return err
	})
	both.Go(func() error {
		set, err := silence.Read(ctx, r.bus)
		if err == nil {
			silenced = set
		}
		return ctx.Err() // unreadable silences suppress nothing: alerts matter more
	})
	if err := both.Wait(); err != nil {
		return err
	}
	now := time.Now()
	n := 0
	for n < len(msgs) && msgs[n].Seq <= p.after.Seq {
		n++
	}
	r.recordDelivered(p, msgs[:n], silenced, now)
	for _, m := range msgs[n:] {
		p.last.Seq = m.Seq
		if now.Sub(m.Time) > inbox.FirstLookback {
			p.stale = m.Seq
			if !known {
				p.after.Seq, p.delivered = m.Seq, m.Seq
				continue
			}
		}
		a, ok := r.decode(m)
		if !ok { // a gateway logs it; a hook has no log
			continue
		}
		// A resolution ends acknowledgements. A gateway writes that to the bus.
		silenced.Acks, _ = silenced.Acks.Apply(a)
		if _, suppressed := silenced.Suppresses(a, now); suppressed {
			p.inbox.Suppress(a)
		} else {
			p.inbox.Offer(a)
		}
	}
	return nil
}

// recordDelivered records the alerts that were delivered to the client before, except
// for those that are suppressed as far as is known now.
func (r *reader) recordDelivered(p *pendingAlerts, msgs []bus.Message, silenced silence.Set, now time.Time) {
	var delivered []alert.Alert
	for _, m := range msgs {
		a, ok := r.decode(m)
		if !ok {
			continue
		}
		p.inbox.RecordElsewhere(a)
		if _, suppressed := silenced.Suppresses(a, now); !suppressed {
			delivered = append(delivered, a)
		}
	}
	p.inbox.RecordDelivered(delivered)
}

// decode returns the alert of a message, masked and sanitized. ok is false if there is
// none, or none that the client may see.
func (r *reader) decode(m bus.Message) (a alert.Alert, ok bool) {
	if json.Unmarshal(m.Data, &a) != nil || !r.isVisible(a) {
		return a, false
	}
	a.Seq = m.Seq
	return display.Alert(a, r.mask), true
}

// saveStart saves the position at which a new client's inbox begins, so that no later
// alert is lost, however late the client asks again.
func (r *reader) saveStart(ctx context.Context, p *pendingAlerts) error {
	p.delivered = p.after.Seq
	_, err := inbox.Claim(ctx, r.bus, r.client, p.after)
	return err
}

// claim claims the alerts that were read and returns, as a digest, those that no other
// reader claimed first. omitted counts the alerts that were not read or were evicted.
// After an error the alerts may have been claimed; they remain in the history.
func (r *reader) claim(ctx context.Context, p *pendingAlerts) (alerts []alert.Alert, omitted int, err error) {
	// The bus has just answered, so the claim gets as much time as a gateway's.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inbox.ClaimTimeout)
	defer cancel()
	before, err := inbox.Claim(ctx, r.bus, r.client, p.last)
	if err != nil {
		return nil, 0, err
	}
	if before.SameStream(p.last) {
		p.inbox.DiscardDelivered(before.Seq)
		p.delivered = max(p.delivered, before.Seq)
	}
	if p.delivered >= p.last.Seq {
		return nil, 0, nil
	}
	omitted = int(p.inbox.Evicted())
	if p.delivered < p.after.Seq {
		omitted += int(p.after.Seq - p.delivered)
	}
	return openFirst(p.inbox.Take(p.last.Seq)), omitted, nil
}

// openFirst moves resolved alerts and resolutions to the end, regardless of severity: a
// block may not have room for all alerts.
func openFirst(alerts []alert.Alert) []alert.Alert {
	rank := func(a alert.Alert) int {
		if a.IsResolution() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(alerts, func(a, b alert.Alert) int { return cmp.Compare(rank(a), rank(b)) })
	return alerts
}
