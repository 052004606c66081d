package gateway

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

const (
	// aheadMessages bounds what waits here for a client that does not read, for each
	// subscription: an event has some 2 KB, a fault with all its logs some 60. What comes
	// after it waits on the bus, which keeps a day or 128 MiB.
	aheadMessages = 32
	// hurryAfter is how long the end of a subscription waits for a client that does not
	// read what is being written.
	hurryAfter = time.Second
	// vigilEvery is how often is looked whether a cluster is still watched.
	vigilEvery = 2 * time.Second
	// maxDiffers is how often what the stream and the kubewatch say may differ. The
	// latter is renewed when it changes, and every KubewatchTTL/3.
	maxDiffers = 3
)

// subscription is a client's to what a cluster says. Who follows the stream for it also
// writes: where the client does not read, it waits, and the stream remembers.
type subscription struct {
	id     string
	filter kubernetes.Filter
	began  time.Time
	// life ends with the subscription, or with the gateway.
	life context.Context
	stop context.CancelFunc
	// turn is full while a line is being written, and for ever after the end.
	turn chan struct{}
	// delivered counts messages, withheld those that the client's level or protocol
	// keeps from it, dropped at most what the bus forgot before it was read.
	delivered, withheld, dropped atomic.Uint64
	// behind says that messages wait to be written, current up to when all are read
	// that came, in nanoseconds since 1970.
	behind  atomic.Bool
	current atomic.Int64

	mu     sync.Mutex
	health subscriptionHealth
}

// subscriptionHealth is whether anything can come.
type subscriptionHealth struct {
	// degraded is what the watch says, unwatched that nobody watches; why says more.
	degraded, unwatched bool
	why                 string
}

// watched takes how the watch is.
func (h *subscriptionHealth) watched(w kube.Watch) {
	if h.degraded = w.Degraded; h.degraded {
		h.why = degradedBy(w)
	}
}

func (h subscriptionHealth) bad() bool { return h.degraded || h.unwatched }

// change changes the health, and says whether it turned.
func (s *subscription) change(f func(*subscriptionHealth)) (now subscriptionHealth, turned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.health.bad()
	f(&s.health)
	if !s.health.bad() {
		s.health.why = ""
	}
	return s.health, s.health.bad() != before
}

// end ends a subscription that was taken out of its session: once it has returned
// nothing of it is written any more. It waits for a line that is being written, and
// hurries that one from hurryAfter on; ctx may end before.
func (s *subscription) end(ctx context.Context, out outlet) error {
	s.stop()
	tick := time.NewTicker(hurryAfter)
	defer tick.Stop()
	for {
		select {
		case s.turn <- struct{}{}: // nobody gets it back
			return nil
		case <-tick.C: // more than once: a write that just begins has a deadline of its own
			out.hurry()
		case <-ctx.Done():
			return errEnded
		}
	}
}

// write waits until the client reads, and writes a line unless the subscription has
// ended before. It says whether it is written.
func (s *subscription) write(out outlet, line []byte) bool {
	for {
		lost, ok := out.await(s.life)
		if !ok {
			return false
		}
		select {
		case <-s.life.Done():
			return false
		case <-lost:
			continue
		case s.turn <- struct{}{}:
		}
		var err error
		if ended := s.life.Err() != nil; !ended {
			err = out.offer(line)
		} else {
			err = errClosed
		}
		<-s.turn
		if err == nil {
			return true
		}
		if s.life.Err() != nil || out.gone() {
			return false
		}
	}
}

// deliver writes a notification, if it may be written to this client.
func (g *gateway) deliver(s *subscription, n kubernetes.Notification) (written bool) {
	if !g.peer().unasked || n.Level.Rank() < int(g.floor.Load()) {
		s.withheld.Add(1)
		return false
	}
	line, err := n.Line()
	if err != nil {
		g.log.Error("what Kubernetes says can't be written", "subscription", s.id, "error", err)
		return false
	}
	return s.write(g.out, append(line, '\n'))
}

// serveSubscription follows what the cluster says from a place on, once the client has
// the answer that tells it of the subscription, until that ends.
func (g *gateway) serveSubscription(s *subscription, start uint64, created time.Time, answered <-chan struct{}) {
	select {
	case <-answered:
	case <-s.life.Done():
		return
	}
	next := start
	var recent kubernetes.RecentEvents
	cfg := bus.FollowConfig{
		Stream: bus.StreamKubernetes, Subjects: s.filter.Subjects(), Start: start, Created: created,
		Ahead: aheadMessages, Logger: g.log,
		Began: func(pending uint64) {
			g.tellLost(s, next)
			s.behind.Store(pending > 0)
		},
	}
	g.link.chase(s.life, cfg, func(m bus.Message, _ time.Time) {
		s.behind.Store(true)
		g.pass(s, m, &recent)
		next = m.Seq + 1
		s.current.Store(m.Time.UnixNano())
		s.behind.Store(m.Pending > 0)
	})
}

// pass hands a message on, if it is one for the subscription.
func (g *gateway) pass(s *subscription, m bus.Message, recent *kubernetes.RecentEvents) {
	var said kube.Message
	if err := json.Unmarshal(m.Data, &said); err != nil {
		g.log.Warn("skipped what says nothing of Kubernetes", "subject", m.Subject, "sequence", m.Seq, "error", err)
		return
	}
	switch {
	case s.filter.MatchesWatch(&said):
		g.tellHealth(s, func(h *subscriptionHealth) {
			h.watched(kube.Watch{Degraded: said.Watch.Degraded, Error: g.shown(said.Watch.Error)})
		})
	case !s.filter.Matches(&said) || !g.cfg.Kubernetes.Namespaces.Shows(&said):
	case s.filter.Mode() == kubernetes.Events && recent.Duplicate(&said, m.Time):
	default:
		shown := display.Kubernetes(said, g.mask)
		if g.deliver(s, s.filter.Deliver(s.id, &shown)) {
			s.delivered.Add(1)
		}
	}
}

// tellHealth changes the health, and tells the client once where it turned.
func (g *gateway) tellHealth(s *subscription, f func(*subscriptionHealth)) {
	now, turned := s.change(f)
	switch {
	case !turned:
	case now.bad():
		g.deliver(s, s.filter.Degraded(s.id, now.why))
	default:
		g.deliver(s, s.filter.Recovered(s.id))
	}
}

// tellLost tells the client what the bus forgot before it was read, when following
// begins with the message next. What the bus forgot while all was read is no loss.
func (g *gateway) tellLost(s *subscription, next uint64) {
	c := g.link.conn.Load()
	ctx, cancel := context.WithTimeout(s.life, linkTimeout)
	defer cancel()
	stream, err := c.JS.Stream(ctx, bus.StreamKubernetes)
	if err != nil {
		g.log.Debug("it is not known what the bus has forgotten", "subscription", s.id, "error", err)
		return
	}
	state := stream.CachedInfo().State
	since := state.FirstTime
	if state.Msgs == 0 {
		since = state.LastTime
	}
	if state.FirstSeq <= next || !since.After(time.Unix(0, s.current.Load())) {
		return
	}
	most := state.FirstSeq - next
	s.dropped.Add(most)
	g.deliver(s, s.filter.Lost(s.id, most, s.bad()))
}

func (s *subscription) bad() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.bad()
}

// degraded is what the watch said last.
func (s *subscription) degraded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.degraded
}

// vigil tells the client when nobody watches its cluster any more, and when somebody
// does again. One look is not enough for the first: the gateway may just have found
// the bus again, and not yet have heard of the kubewatch.
//
// It also finds out that the stream's word on the watch is missing, which was forgotten
// before it was read, or said just as the subscription began: then the kubewatch itself
// has said something else for longer than it takes to renew that.
func (g *gateway) vigil(s *subscription) {
	tick := time.NewTicker(vigilEvery)
	defer tick.Stop()
	missed, differs := 0, 0
	for {
		select {
		case <-s.life.Done():
			return
		case <-tick.C:
		}
		if g.connected() != nil { // nothing is known then
			missed, differs = 0, 0
			continue
		}
		if !s.behind.Load() {
			s.current.Store(time.Now().UnixNano())
		}
		var live bool
		var watch kube.Watch
		err := g.session.do(g.life, func(own *session, now time.Time) {
			watch, live, _ = own.watchers.Status(s.filter.Cluster(), now, bus.KubewatchTTL)
		})
		switch missed++; {
		case err != nil:
			return
		case live:
			missed = 0
			if differs++; s.behind.Load() || s.degraded() == watch.Degraded {
				differs = 0
			}
			g.tellHealth(s, func(h *subscriptionHealth) {
				if h.unwatched = false; differs >= maxDiffers {
					h.watched(watch)
				}
			})
		case missed > 1:
			g.tellHealth(s, func(h *subscriptionHealth) {
				if h.unwatched = true; !h.degraded {
					h.why = unwatched
				}
			})
		}
	}
}
