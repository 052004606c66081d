package kubernetes

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/lifetime"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// aheadMessages bounds what waits here for a client that does not read, for each
	// subscription: an event has some 2 KB, a fault with all its logs some 60. What comes
	// after it waits on the bus, which keeps a day or 128 MiB.
	aheadMessages = 32
	// interruptAfter is how long the end of a subscription waits for a client that does
	// not read what is being written.
	interruptAfter = time.Second
	// watchInterval is how often a subscription checks whether its cluster is watched.
	watchInterval = 2 * time.Second
	// maxDiffers is how many checks in a row the stream and the kubewatch may differ. The
	// latter is renewed when it changes, and every KubewatchTTL/3.
	maxDiffers = 3
	// stateTimeout bounds reading the state of the stream.
	stateTimeout = 5 * time.Second
)

// subscription is one subscription to a cluster. The goroutine that follows the stream
// also writes: where the client does not read it waits, and the stream keeps the rest.
type subscription struct {
	id     string
	filter Filter
	began  time.Time
	// ctx ends with the subscription, or with the gateway.
	ctx  context.Context
	stop context.CancelFunc
	// turn is full while a line is being written, and for ever after the end.
	turn chan struct{}
	// delivered counts messages, withheld those that the client's level or protocol
	// excludes, dropped at most what the bus deleted before it was read.
	delivered, withheld, dropped atomic.Uint64
	// behind reports whether messages wait to be written. All messages up to readUntil
	// are read, in nanoseconds since 1970.
	behind    atomic.Bool
	readUntil atomic.Int64

	mu     sync.Mutex
	health health
}

// newSubscription returns a subscription that nothing serves yet. However it ends, it
// leaves the quota at once.
func newSubscription(ctx context.Context, f Filter, now time.Time, release func()) *subscription {
	s := &subscription{id: NewID(), filter: f, began: now, turn: make(chan struct{}, 1)}
	s.readUntil.Store(now.UnixNano())
	ctx, stop := context.WithCancel(ctx)
	s.ctx, s.stop = ctx, func() { stop(); release() }
	context.AfterFunc(ctx, release)
	return s
}

// health is whether a subscription can get messages.
type health struct {
	// degraded is what the watch says of itself, unwatched whether nothing watches.
	degraded, unwatched bool
	reason              string
}

func (h health) bad() bool { return h.degraded || h.unwatched }

// setWatch takes over the state of the watch.
func (h *health) setWatch(w kube.Watch) {
	if h.degraded = w.Degraded; h.degraded {
		h.reason = degradedBy(w)
	}
}

// degradedBy returns why nothing is delivered: the error of the watch.
func degradedBy(w kube.Watch) string {
	if w.Error == "" {
		return "the cluster can't be watched for now"
	}
	return w.Error
}

// change changes the health, and reports whether it turned good or bad.
func (s *subscription) change(f func(*health)) (now health, turned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.health.bad()
	f(&s.health)
	if !s.health.bad() {
		s.health.reason = ""
	}
	return s.health, s.health.bad() != before
}

func (s *subscription) current() health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

// end ends a subscription: once it has returned, nothing of it is written any more. It
// waits for a line that is being written, and interrupts that from interruptAfter on;
// ctx may end before.
func (s *subscription) end(ctx context.Context, w Writer) error {
	s.stop()
	tick := time.NewTicker(interruptAfter)
	defer tick.Stop()
	for {
		select {
		case s.turn <- struct{}{}: // never released
			return nil
		case <-tick.C: // more than once: a write that just starts has a deadline of its own
			w.Interrupt()
		case <-ctx.Done():
			return lifetime.ErrShutdown
		}
	}
}

// write waits until the client listens, and writes a line unless the subscription has
// ended before. It reports whether the line is written.
func (s *subscription) write(w Writer, line []byte) bool {
	for {
		lost, ok := w.Await(s.ctx)
		if !ok {
			return false
		}
		select {
		case <-s.ctx.Done():
			return false
		case <-lost:
			continue
		case s.turn <- struct{}{}:
		}
		written := s.ctx.Err() == nil && w.Offer(line) == nil
		<-s.turn
		if written {
			return true
		}
		if s.ctx.Err() != nil || w.Gone() {
			return false
		}
	}
}

// deliver writes a notification, if the client takes it.
func (s *Subscriptions) deliver(one *subscription, n Notification) (written bool) {
	if !s.cfg.Accepts(n.Level) {
		one.withheld.Add(1)
		return false
	}
	line, err := n.Line()
	if err != nil {
		s.log.Error("cannot encode a Kubernetes notification", "subscription", one.id, "error", err)
		return false
	}
	return one.write(s.cfg.Writer, append(line, '\n'))
}

// serve follows the stream after a position, once the client has the answer with the
// subscription's id, until the subscription ends.
func (s *Subscriptions) serve(one *subscription, after bus.Position, answered <-chan struct{}) {
	select {
	case <-answered:
	case <-one.ctx.Done():
		return
	}
	next := after.Seq + 1
	var recent RecentEvents
	cfg := bus.FollowConfig{
		Stream: bus.StreamKubernetes, Subjects: one.filter.Subjects(), After: after,
		Ahead: aheadMessages, Logger: s.log,
		Started: func(pending uint64) {
			s.reportDropped(one, next)
			one.behind.Store(pending > 0)
		},
	}
	s.bus.Follow(one.ctx, cfg, func(m bus.Message) {
		one.behind.Store(true)
		s.receive(one, m, &recent)
		next = m.Seq + 1
		one.readUntil.Store(m.Time.UnixNano())
		one.behind.Store(m.Pending > 0)
	})
}

// receive delivers a message, if it matches the subscription.
func (s *Subscriptions) receive(one *subscription, m bus.Message, recent *RecentEvents) {
	var message kube.Message
	if err := json.Unmarshal(m.Data, &message); err != nil {
		s.log.Warn("skipped a message that is not from Kubernetes", "subject", m.Subject, "sequence", m.Seq, "error", err)
		return
	}
	switch {
	case one.filter.MatchesWatch(&message):
		s.setHealth(one, func(h *health) {
			h.setWatch(kube.Watch{Degraded: message.Watch.Degraded, Error: s.shortText(message.Watch.Error)})
		})
	case !one.filter.Matches(&message) || !s.cfg.Namespaces.Shows(&message):
	case one.filter.Mode() == Events && recent.Duplicate(&message, m.Time):
	default:
		shown := display.Kubernetes(message, s.cfg.Mask)
		if s.deliver(one, one.filter.Deliver(one.id, &shown)) {
			one.delivered.Add(1)
		}
	}
}

// shortText masks a short text from outside, makes it visible and cuts it.
func (s *Subscriptions) shortText(text string) string {
	return sanitize.Cut(sanitize.Visible(s.cfg.Mask.String(text)), kube.MaxName)
}

// setHealth changes the health, and notifies the client once where it turned.
func (s *Subscriptions) setHealth(one *subscription, f func(*health)) {
	now, turned := one.change(f)
	switch {
	case !turned:
	case now.bad():
		s.deliver(one, one.filter.Degraded(one.id, now.reason))
	default:
		s.deliver(one, one.filter.Recovered(one.id))
	}
}

// reportDropped notifies the client of what the bus deleted before it was read, when
// following starts with the message next. What the bus deleted while all was read is no
// loss.
func (s *Subscriptions) reportDropped(one *subscription, next uint64) {
	ctx, cancel := context.WithTimeout(one.ctx, stateTimeout)
	defer cancel()
	state, err := s.bus.State(ctx, bus.StreamKubernetes)
	if err != nil {
		s.log.Debug("cannot read what the bus has deleted", "subscription", one.id, "error", err)
		return
	}
	since := state.FirstTime
	if state.Messages == 0 {
		since = state.LastTime
	}
	if state.First <= next || !since.After(time.Unix(0, one.readUntil.Load())) {
		return
	}
	most := state.First - next
	one.dropped.Add(most)
	s.deliver(one, one.filter.Lost(one.id, most, one.current().bad()))
}

// watch notifies the client when nothing watches its cluster any more, and when
// something does again. One check is not enough for the first: the gateway may just have
// reconnected to the bus, and not yet have received the kubewatch's record.
//
// It also finds out that the stream lacks a message about the watch, which was deleted
// before it was read, or published just as the subscription started: then the kubewatch's
// own record has differed for longer than it takes to renew that.
func (s *Subscriptions) watch(one *subscription) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	missed, differs := 0, 0
	for {
		select {
		case <-one.ctx.Done():
			return
		case <-tick.C:
		}
		if s.bus.Connected() != nil { // nothing is known then
			missed, differs = 0, 0
			continue
		}
		if !one.behind.Load() {
			one.readUntil.Store(time.Now().UnixNano())
		}
		s.mu.Lock()
		watch, live, _ := s.watchers.Status(one.filter.Cluster(), time.Now(), bus.KubewatchTTL)
		s.mu.Unlock()
		switch missed++; {
		case live:
			missed = 0
			if differs++; one.behind.Load() || one.current().degraded == watch.Degraded {
				differs = 0
			}
			s.setHealth(one, func(h *health) {
				if h.unwatched = false; differs >= maxDiffers {
					h.setWatch(watch)
				}
			})
		case missed > 1:
			s.setHealth(one, func(h *health) {
				if h.unwatched = true; !h.degraded {
					h.reason = unwatched
				}
			})
		}
	}
}
