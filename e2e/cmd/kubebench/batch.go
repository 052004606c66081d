package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// batch is a number of events, each with a unique message, and when each of them arrived
// where.
type batch struct {
	run int
	// about has the objects that the events are about, in turn.
	about   []corev1.ObjectReference
	started time.Time
	// The request to the API server, its answer, a plain watch, the bus, and an agent's
	// client.
	sent, created, watched, stored, notified arrivals

	mu sync.Mutex
	// uids are those of the events: the stream has no more in its headers.
	uids map[string]int
}

// arrivals are the times at which the events of a batch arrived at one place. They belong to
// one goroutine.
type arrivals struct {
	at   []time.Time
	seen atomic.Int64
	all  chan struct{} // closed when every event has arrived
}

func newArrivals(n int) arrivals { return arrivals{at: make([]time.Time, n), all: make(chan struct{})} }

// record records the arrival of an event. Only the first one counts.
func (p *arrivals) record(i int, at time.Time) {
	if i < 0 || i >= len(p.at) || !p.at[i].IsZero() {
		return
	}
	p.at[i] = at
	if p.seen.Add(1) == int64(len(p.at)) {
		close(p.all)
	}
}

// wait waits until all events have arrived.
func (p *arrivals) wait(ctx context.Context, what string) error {
	ctx, cancel := context.WithTimeout(ctx, arrival)
	defer cancel()
	select {
	case <-p.all:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d events %s: %w", p.seen.Load(), len(p.at), what, ctx.Err())
	}
}

// first returns when the first event arrived.
func (p *arrivals) first() time.Time {
	first := p.at[0]
	for _, at := range p.at {
		if at.Before(first) {
			first = at
		}
	}
	return first
}

// last returns when the last event arrived.
func (p *arrivals) last() time.Time {
	var last time.Time
	for _, at := range p.at {
		if at.After(last) {
			last = at
		}
	}
	return last
}

// rate returns how many events arrived a second from a time on.
func (p *arrivals) rate(from time.Time) float64 {
	return float64(len(p.at)) / p.last().Sub(from).Seconds()
}

// since returns how long after its arrival elsewhere each event arrived. A negative time counts as 0: a
// watch may have an event before its writer has the answer.
func (p *arrivals) since(other *arrivals) []time.Duration {
	all := make([]time.Duration, len(p.at))
	for i := range all {
		all[i] = max(0, p.at[i].Sub(other.at[i]))
	}
	return all
}

func (s *testbed) newBatch(n int, about []corev1.ObjectReference) *batch {
	s.runs++
	return &batch{
		run: s.runs, about: about, uids: make(map[string]int, n),
		sent: newArrivals(n), created: newArrivals(n), watched: newArrivals(n), stored: newArrivals(n), notified: newArrivals(n),
	}
}

// kubeletEvents are what a kubelet reports of each container, again and again.
var kubeletEvents = []struct{ reason, message string }{
	{"Scheduled", "Successfully assigned shop/%s to node-3"},
	{"Pulling", `Pulling image "registry.example/shop/%s:2.14.3"`},
	{"Pulled", `Successfully pulled image "registry.example/shop/%s:2.14.3" in 2.381s (2.381s including waiting). Image size: 148203431 bytes.`},
	{"Created", "Container created: %s"},
	{"Started", "Container started: %s"},
}

// marker returns the part of each event's message before its number.
func (c *batch) marker() string { return fmt.Sprintf(" bench %d/", c.run) }

// number returns the number of the event of a text, or -1.
func number[T ~string | ~[]byte](marker string, text T) int {
	_, after, found := bytes.Cut([]byte(text), []byte(marker))
	if !found {
		return -1
	}
	end := 0
	for end < len(after) && after[end] >= '0' && after[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(string(after[:end]))
	if err != nil {
		return -1
	}
	return n
}

// create writes one event as a kubelet does, and records when that was answered.
func (s *testbed) create(ctx context.Context, c *batch, i int) error {
	about, reported, now := c.about[i%len(c.about)], kubeletEvents[i%len(kubeletEvents)], metav1.Now()
	c.sent.record(i, now.Time)
	made, err := s.client.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", about.Name, now.UnixNano()+int64(i)), Namespace: namespace},
		InvolvedObject: about, Type: corev1.EventTypeNormal, Reason: reported.reason,
		Message:        fmt.Sprintf(reported.message, about.Name) + c.marker() + strconv.Itoa(i),
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: "kubelet", Host: "node-3"}, ReportingController: "kubelet", ReportingInstance: "node-3",
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make an event: %w", err)
	}
	at := time.Now()
	c.mu.Lock()
	c.uids[string(made.UID)] = i
	c.mu.Unlock()
	c.created.record(i, at)
	return nil
}

// createAll writes all events as fast as the API server accepts them.
func (s *testbed) createAll(ctx context.Context, c *batch, writers int) error {
	c.started = time.Now()
	return each(ctx, len(c.created.at), writers, func(ctx context.Context, i int) error { return s.create(ctx, c, i) })
}

// each calls do with the numbers below n, atOnce of them concurrently.
func each(ctx context.Context, n, atOnce int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range atOnce {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// createSteadily writes all events at a steady rate.
func (s *testbed) createSteadily(ctx context.Context, c *batch, rate int) error {
	group, ctx := errgroup.WithContext(ctx)
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	c.started = time.Now()
	for i := range c.created.at {
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-tick.C:
		}
		group.Go(func() error { return s.create(ctx, c, i) })
	}
	return group.Wait()
}

// version returns the cluster's current resource version.
func (s *testbed) version(ctx context.Context) (string, error) {
	list, err := s.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", fmt.Errorf("ask for the version of the cluster: %w", err)
	}
	return list.ResourceVersion, nil
}

// watchDirectly watches the events from a version on, and records those of a batch. stop
// ends the watch and waits for its end.
func (s *testbed) watchDirectly(ctx context.Context, c *batch, version string) (stop func(), err error) {
	w, err := s.client.CoreV1().Events(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return nil, fmt.Errorf("watch events: %w", err)
	}
	done := make(chan struct{})
	marker := c.marker()
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if event, is := e.Object.(*corev1.Event); is && e.Type == watch.Added {
				c.watched.record(number(marker, event.Message), time.Now())
			}
		}
	}()
	return func() { w.Stop(); <-done }, nil
}

// follow records the notifications of a subscriber about a batch.
func (c *batch) follow(sub *subscriber) {
	marker := c.marker()
	sub.listen(func(at time.Time, line []byte) { c.notified.record(number(marker, line), at) })
}

// readStored records when the bus stored the events. All of them have arrived before.
func (s *testbed) readStored(ctx context.Context, c *batch) error {
	err := s.conn.ReadToEnd(ctx, bus.FollowConfig{
		Stream: bus.StreamKubernetes, Subjects: []string{bus.KubernetesFilter{Cluster: clusterName}.Events()},
		HeadersOnly: true, Logger: slog.New(slog.DiscardHandler),
	}, func(m bus.Message) error {
		// <uid of the cluster>/<uid of the event>/<resource version>
		id := strings.Split(m.Header.Get(jetstream.MsgIDHeader), "/")
		if len(id) != 3 {
			return nil
		}
		if i, ours := c.uids[id[1]]; ours {
			c.stored.record(i, m.Time)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	if n := c.stored.seen.Load(); int(n) != len(c.stored.at) {
		return fmt.Errorf("the stream has %d of %d events", n, len(c.stored.at))
	}
	return nil
}
