package kubewatch

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/services/kubewatch/feed"
	"github.com/tocsin-bus/tocsin/services/kubewatch/objects"
	"github.com/tocsin-bus/tocsin/services/kubewatch/outbox"
	"github.com/tocsin-bus/tocsin/services/kubewatch/recent"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

const (
	// sameWindow is how long an event is known that came (specification, section 10), and
	// maxSame how many are.
	sameWindow = 5 * time.Second
	maxSame    = 20_000
	// syncTimeout is how long events wait, at the start, for the objects that they are
	// about: without those they have no labels.
	syncTimeout = 15 * time.Second
	// lookEvery is how often is looked how the book stands.
	lookEvery = time.Second
	// newWithin is how long an event waits for the state of an object that is not known:
	// both of a new one come at once, by two watches. Of what is gone, or never was, there
	// may be many events: maxVain bounds what is waited in vain at once, and a tenth of the
	// time that goes by may be waited again.
	newWithin = 500 * time.Millisecond
	maxVain   = 3 * time.Second
	vainShare = 10
	// updatesAhead is how many updates of objects may wait for the loop.
	updatesAhead = 64
)

// loop takes what one cluster says, in the order in which it comes, and owns the book of
// its faults.
type loop struct {
	*term
	book    *fault.Tracker
	objects *objects.Watcher
	updates chan objects.Update
	// captured are the logs that were read for a finding.
	captured chan captured
	captures sync.WaitGroup
	seen     *recent.Seen[eventKey]
	// synced counts the kinds of objects whose first list is there.
	synced int
	// vain is what was waited in vain for objects, less a share of the time until asked.
	vain  time.Duration
	asked time.Time
	stats fault.Stats
}

// eventKey is what makes an event the same event.
type eventKey struct{ namespace, name, uid, version string }

type captured struct {
	finding *fault.Finding
	logs    []kube.Log
}

// newLoop makes the loop of a cluster that is known by now, with what was published of
// its faults.
func (t *term) newLoop(ctx context.Context) (*loop, error) {
	l := &loop{
		term: t, book: fault.New(t.name, t.uid), updates: make(chan objects.Update, updatesAhead),
		captured: make(chan captured), seen: recent.New[eventKey](sameWindow, maxSame),
	}
	l.objects = objects.New(objects.Config{Client: t.client, Updates: l.updates, Logger: t.log})
	if t.place.Version == "" { // nobody watched this cluster before
		return l, nil
	}
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	err := bus.ReadStored(ctx, t.conn, bus.FollowConfig{
		Stream: bus.StreamKubernetes, Subjects: []string{bus.KubernetesFilter{Cluster: t.name}.Faults()}, Logger: t.log,
	}, func(stored bus.Message) {
		var m kube.Message
		if json.Unmarshal(stored.Data, &m) == nil && m.ClusterUID == t.uid && m.Cluster == t.name {
			l.book.Recall(&m, stored.Time)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read the faults that were published of the cluster: %w", err)
	}
	l.book.Resume(t.oldest, t.until)
	return l, nil
}

// run works until ctx ends.
func (l *loop) run(ctx context.Context) error {
	defer l.captures.Wait()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	begun := time.Now()
	var steps <-chan feed.Step // not before the objects are there
	for {
		if steps == nil && (l.synced+len(l.objects.Refused()) >= objects.Kinds() || time.Since(begun) >= syncTimeout) {
			steps = l.steps
		}
		if next := l.book.Next(); !next.IsZero() {
			due.Reset(max(0, time.Until(next)))
		} else {
			due.Stop()
		}
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case s := <-steps:
			err = l.step(ctx, s)
		case u := <-l.updates:
			err = l.update(ctx, u)
		case c := <-l.captured:
			err = l.publish(ctx, []fault.Finding{l.book.WithLogs(c.finding, c.logs)})
		case <-due.C:
			err = l.publish(ctx, l.book.Tick(time.Now()))
		case <-look.C:
			l.look()
		}
		if err != nil {
			return err
		}
	}
}

func (l *loop) update(ctx context.Context, u objects.Update) error {
	if u.Synced != "" {
		l.synced++
	}
	return l.publish(ctx, u.Apply(l.book, time.Now()))
}

// await waits for the state of an object that an event is about, where it has yet to
// come: from there the event has its labels.
func (l *loop) await(ctx context.Context, o kube.Object) error {
	if !l.objects.Awaits(o) {
		return nil
	}
	now := time.Now()
	l.vain, l.asked = max(0, l.vain-now.Sub(l.asked)/vainShare), now
	if l.vain+newWithin > maxVain {
		return nil
	}
	timer := time.NewTimer(newWithin)
	defer timer.Stop()
	for l.objects.Awaits(o) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case u := <-l.updates:
			if err := l.update(ctx, u); err != nil {
				return err
			}
		case <-timer.C:
			l.vain += newWithin
			return nil
		}
	}
	return nil
}

// step publishes what one step of the feed says. How far it came counts as published
// once all of that is.
func (l *loop) step(ctx context.Context, s feed.Step) error {
	if s.Event == nil {
		return l.box.Put(ctx, outbox.Item{Version: s.Version})
	}
	e := l.clean.Event(s.Event, nil)
	if err := l.await(ctx, e.InvolvedObject); err != nil {
		return err
	}
	now := time.Now()
	e.Labels = l.objects.Labels(e.InvolvedObject)
	if l.seen.Again(eventKey{e.Namespace, e.Name, e.UID, e.ResourceVersion}, now) {
		l.metrics.duplicates.WithLabelValues(l.name).Inc()
		return l.box.Put(ctx, outbox.Item{Version: s.Version})
	}
	// Also of an event that is published already the faults may not be: the book knows.
	found := l.book.Event(e, now)
	item, err := l.event(e)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		item.Version = s.Version
		return l.box.Put(ctx, item)
	}
	if err := l.box.Put(ctx, item); err != nil {
		return err
	}
	if err := l.publish(ctx, found); err != nil {
		return err
	}
	return l.box.Put(ctx, outbox.Item{Version: s.Version})
}

// event is the item of an event, without its version. It is empty where it was published
// before this term.
func (l *loop) event(e *kube.Event) (outbox.Item, error) {
	id := eventID(l.uid, e)
	if _, before := l.published[id]; before {
		delete(l.published, id)
		l.metrics.duplicates.WithLabelValues(l.name).Inc()
		return outbox.Item{}, nil
	}
	m, err := message(&kube.Message{Cluster: l.name, ClusterUID: l.uid, Event: e}, id)
	if err != nil {
		return outbox.Item{}, err
	}
	at := e.Timestamp
	return outbox.Item{Then: []*nats.Msg{m}, Stored: func() {
		l.events.Add(1)
		l.metrics.published.WithLabelValues(l.name, whatEvent).Inc()
		l.metrics.lag.WithLabelValues(l.name).Set(max(0, time.Since(at).Seconds()))
	}}, nil
}

// publish publishes findings, and has the logs read that belong to them.
func (l *loop) publish(ctx context.Context, found []fault.Finding) error {
	for i := range found {
		f := &found[i]
		item, err := l.finding(f)
		if err != nil {
			return err
		}
		if err := l.box.Put(ctx, item); err != nil {
			return err
		}
		if f.Capture != nil {
			l.captures.Go(func() {
				logs := l.capturer.Capture(ctx, l.name, l.client, f.Capture)
				select {
				case l.captured <- captured{f, logs}:
				case <-ctx.Done(): // who comes next asks for them again
				}
			})
		}
	}
	return nil
}

func (l *loop) finding(f *fault.Finding) (item outbox.Item, err error) {
	if f.MsgID == "" {
		return item, nil
	}
	if f.Alert != nil {
		m, err := alertMessage(f.Alert, f.MsgID)
		if err != nil {
			return item, err
		}
		item.First = []*nats.Msg{m}
	}
	if f.Message.Fault == nil {
		return item, nil
	}
	m, err := message(&f.Message, f.MsgID)
	if err != nil {
		return item, err
	}
	item.Then = []*nats.Msg{m}
	logs, kind := len(f.Message.Logs) > 0, f.Message.Fault.Kind
	item.Stored = func() {
		if logs {
			l.logs.Add(1)
			l.metrics.published.WithLabelValues(l.name, whatLogs).Inc()
			return
		}
		l.faults.Add(1)
		l.metrics.published.WithLabelValues(l.name, whatFault).Inc()
		l.metrics.faults.WithLabelValues(l.name, kind).Inc()
	}
	return item, nil
}

// look shows how the book stands.
func (l *loop) look() {
	s := l.book.Stats()
	l.metrics.objects.WithLabelValues(l.name).Set(float64(s.Objects))
	l.metrics.open.WithLabelValues(l.name).Set(float64(s.Open))
	l.metrics.joined.WithLabelValues(l.name).Add(float64(s.Duplicates - l.stats.Duplicates))
	l.metrics.gathered.WithLabelValues(l.name).Add(float64(s.Grouped - l.stats.Grouped))
	l.metrics.withheld.WithLabelValues(l.name).Add(float64(s.Withheld + s.Untracked - l.stats.Withheld - l.stats.Untracked))
	l.stats = s
}
