package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
)

// involved is how many pods the events are about.
const involved = 100

// objects creates the pods that events are about, with labels as a deployment's have
// them.
func (s *testbed) objects(ctx context.Context, writers int) ([]corev1.ObjectReference, error) {
	about := make([]corev1.ObjectReference, involved)
	err := each(ctx, involved, writers, func(ctx context.Context, i int) error {
		pod, err := s.pod(ctx, i)
		if err != nil {
			return err
		}
		about[i], err = kube.Ref(pod)
		about[i].FieldPath = "spec.containers{app}"
		return err
	})
	return about, err
}

// measureEvents measures live events: as fast as the API server accepts them, and at a
// steady rate.
func (z sizes) measureEvents(ctx context.Context, s *testbed) (all []harness.Figure, err error) {
	about, err := s.objects(ctx, z.writers)
	if err != nil {
		return nil, err
	}
	if err := s.watch(ctx); err != nil {
		return nil, err
	}
	sub, err := s.subscribe(ctx, map[string]any{"namespaces": []string{namespace}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sub.close()) }()

	var created, watched, stored, notified, ratio []float64
	for range z.rounds {
		c := s.newBatch(z.events, about)
		if err := s.through(ctx, c, sub, func() error { return s.createAll(ctx, c, z.writers) }); err != nil {
			return nil, err
		}
		created, watched = append(created, c.created.rate(c.started)), append(watched, c.watched.rate(c.started))
		stored, notified = append(stored, c.stored.rate(c.started)), append(notified, c.notified.rate(c.started))
		ratio = append(ratio, c.notified.rate(c.started)/c.watched.rate(c.started))
	}
	perSecond := func(rates []float64) string { return fmt.Sprintf("%.0f events/s", harness.Median(rates)) }
	all = append(all,
		harness.Figure{What: fmt.Sprintf("%d events, %d writers: created", z.events, z.writers), Measured: perSecond(created)},
		harness.Figure{What: "  at a bare watcher of client-go", Measured: perSecond(watched)},
		harness.Figure{What: "  on the stream", Measured: perSecond(stored)},
		harness.Figure{What: "  at a subscriber of a gateway", Asked: "a ratio to the bare watcher", Measured: fmt.Sprintf("%.2fx: %s", harness.Median(ratio), perSecond(notified))},
	)

	c := s.newBatch(max(1, int(z.steady.Seconds()*float64(z.rate))), about)
	if err := s.through(ctx, c, sub, func() error { return s.createSteadily(ctx, c, z.rate) }); err != nil {
		return nil, err
	}
	return append(all,
		harness.Figure{What: fmt.Sprintf("at %.0f events/s, from the request: to the API server's answer", c.created.rate(c.started)), Measured: harness.Quantiles(c.created.since(&c.sent))},
		harness.Figure{What: "  to a bare watcher of client-go", Measured: harness.Quantiles(c.watched.since(&c.sent))},
		harness.Figure{What: "  to the stream", Measured: harness.Quantiles(c.stored.since(&c.sent))},
		harness.Figure{What: "  to the notification", Measured: harness.Quantiles(c.notified.since(&c.sent))},
		harness.Figure{What: "  from the API server's answer to the notification", Measured: harness.Quantiles(c.notified.since(&c.created))},
	), nil
}

// through writes the events of a batch and waits until they have arrived everywhere.
func (s *testbed) through(ctx context.Context, c *batch, sub *subscriber, write func() error) error {
	version, err := s.version(ctx)
	if err != nil {
		return err
	}
	stop, err := s.watchDirectly(ctx, c, version)
	if err != nil {
		return err
	}
	defer stop()
	c.follow(sub)
	if err := write(); err != nil {
		return err
	}
	if err := c.watched.wait(ctx, "at the bare watcher"); err != nil {
		return err
	}
	if err := c.notified.wait(ctx, "at the subscriber"); err != nil {
		return err
	}
	return s.readStored(ctx, c)
}

// measureBacklog measures how fast a kubewatch catches up with events from before its
// start, which no writer slows down.
func (z sizes) measureBacklog(ctx context.Context, s *testbed) (all []harness.Figure, err error) {
	about, err := s.objects(ctx, z.writers)
	if err != nil {
		return nil, err
	}
	if err := s.watch(ctx); err != nil {
		return nil, err
	}
	sub, err := s.subscribe(ctx, map[string]any{"namespaces": []string{namespace}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sub.close()) }()
	var watched, stored, notified, ratio []float64
	var first []time.Duration
	for range z.rounds {
		if err := s.stopKubewatch(); err != nil {
			return nil, err
		}
		c := s.newBatch(z.events, about)
		version, err := s.version(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.createAll(ctx, c, z.writers); err != nil {
			return nil, err
		}
		stop, err := s.watchDirectly(ctx, c, version)
		if err != nil {
			return nil, err
		}
		err = c.watched.wait(ctx, "at the bare watcher")
		stop()
		if err != nil {
			return nil, err
		}
		watched = append(watched, c.watched.rate(c.watched.first()))

		c.follow(sub)
		began := time.Now()
		if err := s.startKubewatch(); err != nil {
			return nil, err
		}
		if err := c.notified.wait(ctx, "at the subscriber"); err != nil {
			return nil, err
		}
		if err := s.readStored(ctx, c); err != nil {
			return nil, err
		}
		// Rates count from the first event on: the start is measured separately.
		since := c.stored.first()
		first = append(first, since.Sub(began))
		stored, notified = append(stored, c.stored.rate(since)), append(notified, c.notified.rate(since))
		ratio = append(ratio, c.notified.rate(since)/watched[len(watched)-1])
	}
	many, err := z.measureMany(ctx, s, about, sub)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{
		{What: fmt.Sprintf("backlog of %d events: a bare watcher of client-go", z.events), Measured: fmt.Sprintf("%.0f events/s", harness.Median(watched))},
		{What: "  on the stream", Measured: fmt.Sprintf("%.0f events/s", harness.Median(stored))},
		{What: "  at a subscriber of a gateway", Asked: "a ratio to the bare watcher", Measured: fmt.Sprintf("%.2fx: %.0f events/s", harness.Median(ratio), harness.Median(notified))},
		{What: "  from the start of kubewatch to the first on the stream", Measured: harness.Quantiles(first)},
		{What: fmt.Sprintf("  at a gateway with %d subscriptions that get all of it", maxSubscriptions), Measured: fmt.Sprintf("%.0f events/s, %.0f notifications/s", many, many*maxSubscriptions)},
	}, nil
}

// maxSubscriptions is how many subscriptions a session may have.
const maxSubscriptions = 10

// measureMany adds subscriptions to that of a subscriber and measures how fast all of them
// get a backlog, in events a second.
func (z sizes) measureMany(ctx context.Context, s *testbed, about []corev1.ObjectReference, sub *subscriber) (float64, error) {
	for range maxSubscriptions - 1 {
		if err := sub.subscribe(ctx, map[string]any{"namespaces": []string{namespace}}); err != nil {
			return 0, err
		}
	}
	if err := s.stopKubewatch(); err != nil {
		return 0, err
	}
	c := s.newBatch(z.events, about)
	if err := s.createAll(ctx, c, z.writers); err != nil {
		return 0, err
	}
	all, received, marker := newArrivals(z.events*maxSubscriptions), make([]int, z.events), c.marker()
	sub.listen(func(at time.Time, line []byte) {
		if i := number(marker, line); i >= 0 && i < len(received) {
			all.record(i*maxSubscriptions+received[i], at)
			received[i]++
		}
	})
	if err := s.startKubewatch(); err != nil {
		return 0, err
	}
	if err := all.wait(ctx, "at all subscriptions"); err != nil {
		return 0, err
	}
	if err := s.readStored(ctx, c); err != nil {
		return 0, err
	}
	return float64(z.events) / all.last().Sub(c.stored.first()).Seconds(), nil
}
