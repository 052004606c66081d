package kubewatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tocsin-bus/tocsin/services/kubewatch/checkpoint"
	"github.com/tocsin-bus/tocsin/services/kubewatch/convert"
	"github.com/tocsin-bus/tocsin/services/kubewatch/feed"
	"github.com/tocsin-bus/tocsin/services/kubewatch/outbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/lease"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

const (
	// saveEvery is how often is written up to where all is published. A start publishes
	// nothing twice for what is not written: it reads more of the stream.
	saveEvery = 200 * time.Millisecond
	// drainTimeout is how long, at the end, what was taken may still be stored.
	drainTimeout = 3 * time.Second
	// recallTimeout bounds reading what a predecessor published.
	recallTimeout = time.Minute
)

// term is the time in which this kubewatch is the active one of a cluster.
type term struct {
	*member
	clean  convert.Converter
	keeper *checkpoint.Keeper
	// place is up to where a predecessor, or we before, have published; stream is when
	// the stream was made that its sequence is of.
	place  checkpoint.Place
	stream time.Time
	// published are the ids of messages past the place.
	published map[string]struct{}
	uid       string
	// oldest is since when the stream remembers, until when the cluster was last published.
	oldest, until time.Time

	box     *outbox.Box
	reached chan outbox.Place
	signs   chan feed.Sign
	steps   chan feed.Step
}

// term watches the cluster and publishes until ctx ends. Where the cause of that is
// lease.ErrLost it falls silent at once; else it ends in order: what was taken is
// stored, and how far it came is written. Each failure of it is mended by another
// term, which begins where this one came to.
func (m *member) term(ctx context.Context) error {
	t := &term{
		member: m, clean: convert.New(redact.New()), published: map[string]struct{}{},
		reached: make(chan outbox.Place, 1),
		signs:   make(chan feed.Sign), steps: make(chan feed.Step, 64),
	}
	last, watch, err := t.recall(ctx)
	if err != nil {
		return err
	}
	t.box = outbox.New(outbox.Config{
		Publisher: m.publisher, Sequence: last, Reached: t.reach, Logger: m.log,
		Again: func() { m.metrics.resent.WithLabelValues(m.name).Inc() },
	})
	out, silence := context.WithCancelCause(context.WithoutCancel(ctx))
	defer silence(nil)
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), lease.ErrLost) {
			silence(lease.ErrLost)
		}
	})()
	writes, out := errgroup.WithContext(out)
	writes.Go(func() error {
		defer close(t.reached)
		return t.box.Run(out)
	})
	writes.Go(func() error { return t.keep(out) })
	// What reads ends with ctx, and when nothing can be written any more.
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(out, func() { stop(context.Cause(out)) })()
	reads, reading := errgroup.WithContext(reading)
	reads.Go(func() error { return t.attend(reading, watch) })
	reads.Go(func() error { return t.read(reading) })
	err = reads.Wait()
	t.box.Close()
	defer time.AfterFunc(drainTimeout, func() { silence(errDrain) }).Stop()
	wrote := writes.Wait()
	if t.uid != "" {
		m.unclaim(t.uid, m.name)
	}
	switch {
	case wrote != nil:
		return wrote
	case ctx.Err() != nil:
		return nil
	default:
		return err
	}
}

// errDrain says that what was taken was not stored in time at the end. The next term
// reads it from the cluster again.
var errDrain = errors.New("the bus did not store everything in time")

// recall reads how far the cluster was published, what was published past that, and how
// the watch was told to be. Last is the stream's newest message.
func (t *term) recall(ctx context.Context) (last uint64, watch kube.Watch, err error) {
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	// The place first: what is published meanwhile, by one who does not know yet that it
	// is no leader any more, is past it.
	t.keeper, t.place, err = checkpoint.Open(ctx, t.places, t.key)
	if errors.Is(err, checkpoint.ErrUnreadable) {
		t.log.Warn("the cluster is watched from now on: what happened since it was watched last is not told", "because", err)
	} else if err != nil {
		return 0, watch, err
	}
	s, err := t.conn.JS.Stream(ctx, bus.StreamKubernetes)
	if err != nil {
		return 0, watch, fmt.Errorf("look at the stream %s: %w", bus.StreamKubernetes, err)
	}
	info := s.CachedInfo()
	t.stream = info.Created
	of := bus.KubernetesFilter{Cluster: t.name}
	if t.place.Version != "" {
		start := t.place.Sequence + 1
		if !t.place.Stream.Equal(t.stream) { // it was made anew
			start = 1
		}
		err = bus.ReadStored(ctx, t.conn, bus.FollowConfig{
			Stream: bus.StreamKubernetes, Subjects: []string{of.Everything()}, Start: start, HeadersOnly: true, Logger: t.log,
		}, func(m bus.Message) { t.published[m.Header.Get(jetstream.MsgIDHeader)] = struct{}{} })
		if err != nil {
			return 0, watch, fmt.Errorf("read what was published of the cluster: %w", err)
		}
	}
	if t.oldest = info.State.FirstTime; info.State.Msgs == 0 {
		t.oldest = time.Now()
	}
	m, found, err := t.conn.Last(ctx, bus.StreamKubernetes, of.Everything())
	if err != nil {
		return 0, watch, err
	}
	if t.until = t.keeper.Written(); found && m.Time.After(t.until) {
		t.until = m.Time
	}
	m, found, err = t.conn.Last(ctx, bus.StreamKubernetes, of.Watch())
	if err != nil {
		return 0, watch, err
	}
	var said kube.Message
	if found && json.Unmarshal(m.Data, &said) == nil && said.Cluster == t.name && said.Watch != nil {
		watch = *said.Watch
	}
	return info.State.LastSeq, watch, nil
}

// reach notes up to where all is published, for keep. What keep has not taken yet is
// replaced.
func (t *term) reach(p outbox.Place) {
	select {
	case <-t.reached:
	default:
	}
	t.reached <- p
}

// keep writes up to where all is published, until nothing more is.
func (t *term) keep(ctx context.Context) error {
	for p := range t.reached {
		for {
			err := t.keeper.Save(ctx, checkpoint.Place{
				ClusterUID: t.uid, Version: p.Version, Sequence: p.Sequence, Stream: t.stream, By: t.who.ID,
			})
			if errors.Is(err, checkpoint.ErrOvertaken) {
				return err
			}
			ended := !pause(ctx, saveEvery)
			if err == nil {
				break
			}
			if ended {
				return context.Cause(ctx)
			}
			t.log.Debug("how far the cluster is published is not written; it is tried again", "error", err)
			p = t.newest(p)
		}
	}
	return nil
}

func (t *term) newest(p outbox.Place) outbox.Place {
	select {
	case newer, more := <-t.reached:
		if more {
			return newer
		}
	default:
	}
	return p
}

// attend follows how asking the cluster goes, and tells when that changes what can be
// expected: once when the watch is degraded, once when it has recovered.
func (t *term) attend(ctx context.Context, watch kube.Watch) error {
	o := outlook{watch: watch}
	t.says(watch)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case s := <-t.signs:
			if s.Errors > 0 {
				t.metrics.errors.WithLabelValues(t.name).Inc()
				t.log.Debug("the cluster did not answer as it should", "errors", s.Errors, "error", s.Err)
			}
			before := o.watch
			if !o.take(s, time.Now(), t.clean.Line) {
				continue
			}
			began := o.watch
			if o.watch.Degraded {
				t.log.Warn("the cluster can't be watched; it is tried again", "error", o.watch.Error)
			} else {
				began = before
				t.log.Info("the cluster is watched again", "since", before.Since)
			}
			t.says(o.watch)
			if err := t.tellWatch(ctx, o.watch, began); err != nil {
				return err
			}
		}
	}
}

func (t *term) tellWatch(ctx context.Context, w, began kube.Watch) error {
	id := watchID(t.key, w)
	m := &kube.Message{Cluster: t.name, Watch: &w}
	if uid := t.member.uid.Load(); uid != nil {
		m.ClusterUID = *uid
	}
	msg, err := message(m, id)
	if err != nil {
		return err
	}
	alerted, err := alertMessage(watchAlert(t.name, w, began), id)
	if err != nil {
		return err
	}
	return t.box.Put(ctx, outbox.Item{
		First: []*nats.Msg{alerted}, Then: []*nats.Msg{msg},
		Stored: func() { t.metrics.published.WithLabelValues(t.name, whatWatch).Inc() },
	})
}

// read finds out which cluster it is, and reads it until ctx ends.
func (t *term) read(ctx context.Context) error {
	f := feed.New(t.client.Events(), t.signs, t.steps, t.log)
	f.Relisted = func() { t.metrics.relists.WithLabelValues(t.name).Inc() }
	f.Same = t.same
	if err := t.identify(ctx, f); err != nil {
		return err
	}
	l, err := t.newLoop(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.Run(ctx, t.place.Version) })
	group.Go(func() error { return l.objects.Run(ctx) })
	group.Go(func() error { return l.run(ctx) })
	return group.Wait()
}

// byAddress begins the uid of a cluster that does not say who it is.
const byAddress = "address-"

// same says whether it is still the cluster that it was.
func (t *term) same(ctx context.Context) error {
	uid, err := t.client.UID(ctx)
	if apierrors.IsForbidden(err) && strings.HasPrefix(t.uid, byAddress) {
		return nil
	}
	if err == nil && uid != t.uid {
		err = fmt.Errorf("%w: it is %s, and was %s", feed.ErrOther, uid, t.uid)
	}
	return err
}

// identify asks the cluster who it is. One that does not say, and never said, goes by its
// address. One that said it once is asked until it does: an API server that starts lets
// nobody do anything before it has read the roles, and under another name everything
// would begin anew.
func (t *term) identify(ctx context.Context, f *feed.Feed) error {
	before := t.place.ClusterUID
	never := before == "" || strings.HasPrefix(before, byAddress)
	err := f.Try(ctx, func(err error) bool { return never && apierrors.IsForbidden(err) }, func(ctx context.Context) (err error) {
		t.uid, err = t.client.UID(ctx)
		return err
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		t.uid = byAddress + t.client.Address()
		t.log.Warn("the cluster does not say who it is, so it goes by its address: let kubewatch get the namespace kube-system", "error", err)
	}
	if err := t.claim(t.uid, t.name); err != nil {
		t.uid = ""
		return err
	}
	t.member.uid.Store(&t.uid)
	if t.place.ClusterUID != t.uid {
		if t.place.Version != "" {
			t.log.Warn("another cluster has this name now: its events are watched from now on", "was", t.place.ClusterUID, "is", t.uid)
		}
		t.place = checkpoint.Place{}
	}
	return nil
}
