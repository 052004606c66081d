package kubernetes

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// maxPrefetched bounds the messages that a subscription fetches while its client does not
	// read: an event has about 2 KB, a fault with all its logs about 60 KB. The others wait on the
	// bus, which keeps a day or 128 MiB.
	maxPrefetched = 32
	// interruptAfter is how long a subscription that ends waits for a write that the client
	// does not read.
	interruptAfter = time.Second
	// watchInterval is the time between two checks whether the cluster of a subscription is watched.
	watchInterval = 2 * time.Second
	// maxMismatches is how many checks in a row the stream may differ from the kubewatch's
	// record, which is renewed when it changes and every KubewatchTTL/3.
	maxMismatches = 3
	// stateTimeout bounds reading the state of the stream.
	stateTimeout = 5 * time.Second
)

// subscription is one subscription to a cluster. The goroutine that follows the stream also
// writes: while the client does not read, it waits and the stream keeps the rest.
type subscription struct {
	id     string
	filter Filter
	began  time.Time
	// ctx ends with the subscription, or with the gateway.
	ctx  context.Context
	stop context.CancelFunc
	// writeLock has one slot, taken while a line is being written, and for good once the
	// subscription has ended.
	writeLock chan struct{}
	// delivered counts messages, and withheld those that the client's level or protocol
	// excludes. dropped is an upper bound on those that the bus deleted unread.
	delivered, withheld, dropped atomic.Uint64
	// hasPending reports whether messages wait to be written. readUntil is the time up to
	// which all messages are read, in nanoseconds since 1970.
	hasPending atomic.Bool
	readUntil  atomic.Int64

	mu     sync.Mutex
	health health
}

// newSubscription returns a subscription for Subscriptions.serve. It calls release as soon as
// the subscription ends.
func newSubscription(ctx context.Context, f Filter, now time.Time, release func()) *subscription {
	s := &subscription{id: NewID(), filter: f, began: now, writeLock: make(chan struct{}, 1)}
	s.readUntil.Store(now.UnixNano())
	ctx, stop := context.WithCancel(ctx)
	s.ctx, s.stop = ctx, func() { stop(); release() }
	context.AfterFunc(ctx, release)
	return s
}

// health describes whether a subscription can get messages.
type health struct {
	// degraded is set while kubewatch reports a degraded watch, unwatched while no kubewatch
	// watches the cluster. reason explains either.
	degraded, unwatched bool
	reason              string
}

func (h health) interrupted() bool { return h.degraded || h.unwatched }

// setWatch sets the health to the reported state of the watch.
func (h *health) setWatch(w kube.Watch) {
	if h.degraded = w.Degraded; h.degraded {
		h.reason = degradedReason(w)
	}
}

// degradedReason returns the error of a degraded watch.
func degradedReason(w kube.Watch) string {
	if w.Error == "" {
		return "the cluster can't be watched for now"
	}
	return w.Error
}

// changeHealth applies f to the health. changed reports whether that interrupted or restored
// the subscription.
func (s *subscription) changeHealth(f func(*health)) (now health, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.health.interrupted()
	f(&s.health)
	if !s.health.interrupted() {
		s.health.reason = ""
	}
	return s.health, s.health.interrupted() != before
}

func (s *subscription) currentHealth() health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

// end ends a subscription: none of its lines is written after end has returned. It waits for
// a line that is being written, and interrupts that write after interruptAfter. It returns
// early if ctx ends.
func (s *subscription) end(ctx context.Context, w Writer) error {
	s.stop()
	tick := time.NewTicker(interruptAfter)
	defer tick.Stop()
	for {
		select {
		case s.writeLock <- struct{}{}: // never released
			return nil
		case <-tick.C: // repeatedly: a write that starts later sets a new deadline
			w.Interrupt()
		case <-ctx.Done():
			return busclient.ErrShutdown
		}
	}
}

// write waits until the client listens, and writes a line unless the subscription ends
// before. It reports whether it wrote the line.
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
		case s.writeLock <- struct{}{}:
		}
		written := s.ctx.Err() == nil && w.TryWrite(line) == nil
		<-s.writeLock
		if written {
			return true
		}
		if s.ctx.Err() != nil || w.Gone() {
			return false
		}
	}
}

// deliver writes a notification if the client accepts its level.
func (s *Subscriptions) deliver(sub *subscription, n Notification) (written bool) {
	if !s.cfg.Accepts(n.Level) {
		sub.withheld.Add(1)
		return false
	}
	line, err := n.Line()
	if err != nil {
		s.log.Error("cannot encode a Kubernetes notification", "subscription", sub.id, "error", err)
		return false
	}
	return sub.write(s.cfg.Writer, append(line, '\n'))
}

// serve follows the stream after a position until the subscription ends. It begins once
// answered is closed: the client then has the subscription's id.
func (s *Subscriptions) serve(sub *subscription, after bus.Position, answered <-chan struct{}) {
	select {
	case <-answered:
	case <-sub.ctx.Done():
		return
	}
	next := after.Seq + 1
	var recent RecentEvents
	cfg := bus.FollowConfig{
		Stream: bus.StreamKubernetes, Subjects: sub.filter.Subjects(), After: after,
		Ahead: maxPrefetched, Logger: s.log,
		Started: func(pending uint64) {
			s.reportDropped(sub, next)
			sub.hasPending.Store(pending > 0)
		},
	}
	s.bus.Follow(sub.ctx, cfg, func(m bus.Message) {
		sub.hasPending.Store(true)
		s.receive(sub, m, &recent)
		next = m.Seq + 1
		sub.readUntil.Store(m.Time.UnixNano())
		sub.hasPending.Store(m.Pending > 0)
	})
}

// receive delivers a message if it matches the subscription.
func (s *Subscriptions) receive(sub *subscription, m bus.Message, recent *RecentEvents) {
	var message kube.Message
	if err := json.Unmarshal(m.Data, &message); err != nil {
		s.log.Warn("skipped a message that is not from Kubernetes", "subject", m.Subject, "sequence", m.Seq, "error", err)
		return
	}
	switch {
	case sub.filter.MatchesWatch(&message):
		s.setHealth(sub, func(h *health) {
			h.setWatch(kube.Watch{Degraded: message.Watch.Degraded, Error: s.shortText(message.Watch.Error)})
		})
	case !sub.filter.Matches(&message) || !s.cfg.Namespaces.Shows(&message):
	case sub.filter.Mode() == Events && recent.Duplicate(&message, m.Time):
	default:
		shown := display.Kubernetes(message, s.cfg.Mask)
		if s.deliver(sub, sub.filter.Notification(sub.id, &shown)) {
			sub.delivered.Add(1)
		}
	}
}

// shortText returns a text from outside without secrets, visible and at most kube.MaxName
// characters long.
func (s *Subscriptions) shortText(text string) string {
	return sanitize.Cut(sanitize.Visible(s.cfg.Mask.String(text)), kube.MaxName)
}

// setHealth applies f to the health, and notifies the client if the subscription was
// interrupted or restored.
func (s *Subscriptions) setHealth(sub *subscription, f func(*health)) {
	now, changed := sub.changeHealth(f)
	switch {
	case !changed:
	case now.interrupted():
		s.deliver(sub, sub.filter.DegradedNotification(sub.id, now.reason))
	default:
		s.deliver(sub, sub.filter.RecoveredNotification(sub.id))
	}
}

// reportDropped notifies the client of messages that the bus deleted unread. next is the
// sequence at which reading starts. Messages deleted while nothing was pending are not
// counted.
func (s *Subscriptions) reportDropped(sub *subscription, next uint64) {
	ctx, cancel := context.WithTimeout(sub.ctx, stateTimeout)
	defer cancel()
	state, err := s.bus.State(ctx, bus.StreamKubernetes)
	if err != nil {
		s.log.Debug("cannot read what the bus has deleted", "subscription", sub.id, "error", err)
		return
	}
	since := state.FirstTime
	if state.Messages == 0 {
		since = state.LastTime
	}
	if state.First <= next || !since.After(time.Unix(0, sub.readUntil.Load())) {
		return
	}
	most := state.First - next
	sub.dropped.Add(most)
	s.deliver(sub, sub.filter.DroppedNotification(sub.id, most, sub.currentHealth().interrupted()))
}

// watch notifies the client when no kubewatch watches its cluster any more, and when one does
// again. The former takes two checks: a gateway that has just reconnected to the bus may not
// have received the kubewatch's record yet.
//
// The stream may lack a message about the watch: one that was deleted unread, or published
// just as the subscription started. watch then takes the state from the kubewatch's record,
// once that has differed for maxMismatches checks.
func (s *Subscriptions) watch(sub *subscription) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	missed, mismatches := 0, 0
	for {
		select {
		case <-sub.ctx.Done():
			return
		case <-tick.C:
		}
		if s.bus.Connected() != nil { // nothing is known then
			missed, mismatches = 0, 0
			continue
		}
		if !sub.hasPending.Load() {
			sub.readUntil.Store(time.Now().UnixNano())
		}
		s.mu.Lock()
		watch, live, _ := s.watchers.Status(sub.filter.Cluster(), time.Now(), bus.KubewatchTTL)
		s.mu.Unlock()
		switch missed++; {
		case live:
			missed = 0
			if mismatches++; sub.hasPending.Load() || sub.currentHealth().degraded == watch.Degraded {
				mismatches = 0
			}
			s.setHealth(sub, func(h *health) {
				if h.unwatched = false; mismatches >= maxMismatches {
					h.setWatch(watch)
				}
			})
		case missed > 1:
			s.setHealth(sub, func(h *health) {
				if h.unwatched = true; !h.degraded {
					h.reason = reasonUnwatched
				}
			})
		}
	}
}
