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
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

const (
	// seenWindow is how long an event is remembered, to publish it once. maxSeen is how
	// many are.
	seenWindow = 5 * time.Second
	maxSeen    = 20_000
	// syncTimeout is how long events wait at the start for the objects that they involve,
	// whose labels they get.
	syncTimeout = 15 * time.Second
	// statsEvery is the time between two updates of the tracker's metrics.
	statsEvery = time.Second
	// maxObjectWait is how long an event waits for the state of an unknown object: both of a
	// new object arrive at once, by two watches. Many events may involve objects that are
	// gone or never existed, so the waits without success are limited to maxWaited; a
	// tenth of the elapsed time (waitShare) is added to that budget.
	maxObjectWait = 500 * time.Millisecond
	waitBudget    = 3 * time.Second
	waitShare     = 10
	// updatesAhead is how many updates of objects may wait for the loop.
	updatesAhead = 64
)

// loop takes the events and states of one cluster in order, and owns the tracker of its
// faults.
type loop struct {
	*leadership
	tracker *fault.Tracker
	objects *objects.Watcher
	updates chan objects.Update
	// captured are the logs that were read for findings.
	captured chan capturedLogs
	captures sync.WaitGroup
	seen     *seenEvents[eventKey]
	// synced counts the kinds of objects whose first list is complete.
	synced int
	// waited is the time that was waited for objects without success, less what has been
	// added to the budget up to waitedAt.
	waited   time.Duration
	waitedAt time.Time
	stats    fault.Stats
}

// eventKey identifies a version of an event.
type eventKey struct{ namespace, name, uid, version string }

type capturedLogs struct {
	finding *fault.Finding
	logs    []kube.Log
}

// newLoop returns the loop of an identified cluster, with the faults that were published.
func (l *leadership) newLoop(ctx context.Context) (*loop, error) {
	loop := &loop{
		leadership: l, tracker: fault.New(l.name, l.uid), updates: make(chan objects.Update, updatesAhead),
		captured: make(chan capturedLogs), seen: newSeenEvents[eventKey](seenWindow, maxSeen),
	}
	loop.objects = objects.New(objects.Config{Client: l.client, Updates: loop.updates, Logger: l.log})
	if l.start.Version == "" { // the cluster was never watched
		return loop, nil
	}
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	err := l.session.ReadToEnd(ctx, bus.FollowConfig{
		Stream: bus.StreamKubernetes, Subjects: []string{bus.KubernetesFilter{Cluster: l.name}.Faults()}, Logger: l.log,
	}, func(stored bus.Message) error {
		var m kube.Message
		if json.Unmarshal(stored.Data, &m) == nil && m.ClusterUID == l.uid && m.Cluster == l.name {
			loop.tracker.Recall(&m, stored.Time)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the published faults of the cluster: %w", err)
	}
	loop.tracker.Resume(l.streamSince, l.publishedUntil)
	return loop, nil
}

// run works until ctx ends. The captures end with ctx, perhaps after run.
func (l *loop) run(ctx context.Context) error {
	stats := time.NewTicker(statsEvery)
	defer stats.Stop()
	dueTimer := time.NewTimer(time.Hour)
	defer dueTimer.Stop()
	start := time.Now()
	var steps <-chan feed.Step // nil until the objects are known
	for {
		if steps == nil && (l.synced+len(l.objects.Refused()) >= objects.Kinds() || time.Since(start) >= syncTimeout) {
			steps = l.steps
		}
		if next := l.tracker.Next(); !next.IsZero() {
			dueTimer.Reset(max(0, time.Until(next)))
		} else {
			dueTimer.Stop()
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
			err = l.publish(ctx, []fault.Finding{l.tracker.WithLogs(c.finding, c.logs)})
		case <-dueTimer.C:
			err = l.publish(ctx, l.tracker.Tick(time.Now()))
		case <-stats.C:
			l.updateStats()
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
	return l.publish(ctx, u.Apply(l.tracker, time.Now()))
}

// waitForObject waits for the state of the object that an event involves, which has its
// labels, if that is not known yet.
func (l *loop) waitForObject(ctx context.Context, ref kube.Object) error {
	if !l.objects.IsPending(ref) {
		return nil
	}
	now := time.Now()
	l.waited, l.waitedAt = max(0, l.waited-now.Sub(l.waitedAt)/waitShare), now
	if l.waited+maxObjectWait > waitBudget {
		return nil
	}
	timer := time.NewTimer(maxObjectWait)
	defer timer.Stop()
	for l.objects.IsPending(ref) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case u := <-l.updates:
			if err := l.update(ctx, u); err != nil {
				return err
			}
		case <-timer.C:
			l.waited += maxObjectWait
			return nil
		}
	}
	return nil
}

// step publishes a step of the feed. Its version counts as published once all that belongs
// to the step is stored.
func (l *loop) step(ctx context.Context, s feed.Step) error {
	if s.Event == nil {
		return l.box.Put(ctx, outbox.Item{Version: s.Version})
	}
	e := l.converter.Event(s.Event, nil)
	if err := l.waitForObject(ctx, e.InvolvedObject); err != nil {
		return err
	}
	now := time.Now()
	e.Labels = l.objects.Labels(e.InvolvedObject)
	if l.seen.checkAndAdd(eventKey{e.Namespace, e.Name, e.UID, e.ResourceVersion}, now) {
		l.metrics.duplicates.WithLabelValues(l.name).Inc()
		return l.box.Put(ctx, outbox.Item{Version: s.Version})
	}
	// A published event may have faults that were not: the tracker knows.
	found := l.tracker.Event(e, now)
	item, err := l.eventItem(e)
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

// eventItem returns the item of an event without its version. It is empty if the event was
// published before this leadership.
func (l *loop) eventItem(e *kube.Event) (outbox.Item, error) {
	id := eventID(l.uid, e)
	if _, ok := l.publishedIDs[id]; ok {
		delete(l.publishedIDs, id)
		l.metrics.duplicates.WithLabelValues(l.name).Inc()
		return outbox.Item{}, nil
	}
	m, err := kubernetesMessage(&kube.Message{Cluster: l.name, ClusterUID: l.uid, Event: e}, id)
	if err != nil {
		return outbox.Item{}, err
	}
	occurred := e.Timestamp
	return outbox.Item{Then: []*nats.Msg{m}, Stored: func() {
		l.events.Add(1)
		l.metrics.published.WithLabelValues(l.name, publishedEvent).Inc()
		l.metrics.lag.WithLabelValues(l.name).Set(max(0, time.Since(occurred).Seconds()))
	}}, nil
}

// publish publishes findings and starts reading the logs that belong to them.
func (l *loop) publish(ctx context.Context, found []fault.Finding) error {
	for i := range found {
		f := &found[i]
		item, err := l.findingItem(f)
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
				case l.captured <- capturedLogs{f, logs}:
				case <-ctx.Done(): // the next leadership reads them again
				}
			})
		}
	}
	return nil
}

func (l *loop) findingItem(f *fault.Finding) (item outbox.Item, err error) {
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
	m, err := kubernetesMessage(&f.Message, f.MsgID)
	if err != nil {
		return item, err
	}
	item.Then = []*nats.Msg{m}
	hasLogs, kind := len(f.Message.Logs) > 0, f.Message.Fault.Kind
	item.Stored = func() {
		if hasLogs {
			l.logs.Add(1)
			l.metrics.published.WithLabelValues(l.name, publishedLogs).Inc()
			return
		}
		l.faults.Add(1)
		l.metrics.published.WithLabelValues(l.name, publishedFault).Inc()
		l.metrics.faults.WithLabelValues(l.name, kind).Inc()
	}
	return item, nil
}

// updateStats exports the counts of the tracker.
func (l *loop) updateStats() {
	s := l.tracker.Stats()
	l.metrics.objects.WithLabelValues(l.name).Set(float64(s.Objects))
	l.metrics.open.WithLabelValues(l.name).Set(float64(s.Open))
	l.metrics.duplicateFaults.WithLabelValues(l.name).Add(float64(s.Duplicates - l.stats.Duplicates))
	l.metrics.grouped.WithLabelValues(l.name).Add(float64(s.Grouped - l.stats.Grouped))
	l.metrics.withheld.WithLabelValues(l.name).Add(float64(s.Withheld + s.Untracked - l.stats.Withheld - l.stats.Untracked))
	l.stats = s
}
