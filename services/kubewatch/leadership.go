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

	"github.com/tocsin-bus/tocsin/services/kubewatch/convert"
	"github.com/tocsin-bus/tocsin/services/kubewatch/feed"
	"github.com/tocsin-bus/tocsin/services/kubewatch/outbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/lease"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

const (
	// saveEvery is the shortest interval between two checkpoints. A start after an old
	// checkpoint publishes nothing twice: it reads more of the stream.
	saveEvery = 200 * time.Millisecond
	// flushTimeout is how long shutdown waits for accepted items to be stored.
	flushTimeout = 3 * time.Second
	// recallTimeout bounds reading what was published before.
	recallTimeout = time.Minute
)

// leadership is the time in which this kubewatch is the active one of a cluster.
type leadership struct {
	*clusterWatch
	session   *bus.Session
	converter convert.Converter
	// checkpoints stores checkpoints; start is the one from which this leadership resumes.
	checkpoints *outbox.CheckpointStore
	start       outbox.Checkpoint
	// streamCreated is when the stream KUBERNETES was created.
	streamCreated time.Time
	// publishedIDs are the ids of the messages after the checkpoint.
	publishedIDs map[string]struct{}
	uid          string
	// streamSince is the time of the oldest message of the stream, publishedUntil the time of
	// the newest message or checkpoint of the cluster.
	streamSince, publishedUntil time.Time

	box       *outbox.Box
	watermark chan outbox.Watermark // newest one that is not saved yet
	health    chan feed.Health
	steps     chan feed.Step
}

// lead watches the cluster and publishes until ctx ends. If the lease was lost or the
// session is closed it aborts at once. Otherwise it stores what it has accepted and saves
// the checkpoint. After any error a new leadership resumes from the checkpoint.
func (w *clusterWatch) lead(ctx context.Context, s *bus.Session, publisher *bus.Publisher) error {
	l := &leadership{
		clusterWatch: w, session: s, converter: convert.New(redact.New()), publishedIDs: map[string]struct{}{},
		watermark: make(chan outbox.Watermark, 1), health: make(chan feed.Health), steps: make(chan feed.Step, 64),
	}
	last, status, err := l.readPublished(ctx)
	if err != nil {
		return err
	}
	l.box = outbox.New(outbox.Config{
		Publisher: publisher, Sequence: last, Advanced: l.queueWatermark, Logger: w.log,
		Resent: func() { w.metrics.resent.WithLabelValues(w.name).Inc() },
	})
	accepting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// Writers go on after accepting has ended, to store what was accepted.
	abort, cancel := bus.WithGrace(accepting, flushTimeout, lease.ErrLost)
	defer cancel()
	writers, writing := errgroup.WithContext(abort)
	writers.Go(func() error {
		defer close(l.watermark)
		return l.box.Run(writing)
	})
	writers.Go(func() error { return l.saveCheckpoints(writing) })
	defer context.AfterFunc(writing, func() { stop(context.Cause(writing)) })()
	readers, reading := errgroup.WithContext(accepting)
	readers.Go(func() error { return l.publishStatus(reading, status) })
	readers.Go(func() error { return l.read(reading) })
	err = readers.Wait()
	stop(err)
	l.box.Close()
	written := writers.Wait()
	if l.uid != "" {
		w.releaseUID(l.uid, w.name)
	}
	switch {
	case errors.Is(written, bus.ErrGrace):
		return fmt.Errorf("the bus did not store everything within %s: %w", flushTimeout, written)
	case written != nil:
		return written
	case ctx.Err() != nil:
		return nil
	default:
		return err
	}
}

// readPublished reads the checkpoint, the ids of the messages after it, and the status of
// the watch that was published last. It returns that and the last sequence of the stream.
func (l *leadership) readPublished(ctx context.Context) (last uint64, status kube.Watch, err error) {
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	// The checkpoint comes first: a former leader that does not know yet that it is none
	// publishes only after it.
	l.checkpoints, l.start, err = outbox.OpenCheckpoint(ctx, l.session.Document(bus.BucketClusters, l.key))
	if errors.Is(err, outbox.ErrUnreadable) {
		l.log.Warn("the cluster is watched from now on; events since it was watched last are lost", "error", err)
	} else if err != nil {
		return 0, status, err
	}
	state, err := l.session.State(ctx, bus.StreamKubernetes)
	if err != nil {
		return 0, status, err
	}
	l.streamCreated = state.Created
	filter := bus.KubernetesFilter{Cluster: l.name}
	if l.start.Version != "" {
		err = l.session.ReadToEnd(ctx, bus.FollowConfig{
			Stream: bus.StreamKubernetes, Subjects: []string{filter.Everything()}, HeadersOnly: true, Logger: l.log,
			After: bus.Position{Seq: l.start.Sequence, Created: l.start.Stream}.InStream(state.Created),
		}, func(m bus.Message) error {
			l.publishedIDs[m.Header.Get(jetstream.MsgIDHeader)] = struct{}{}
			return nil
		})
		if err != nil {
			return 0, status, fmt.Errorf("read what was published of the cluster: %w", err)
		}
	}
	if l.streamSince = state.FirstTime; state.Messages == 0 {
		l.streamSince = time.Now()
	}
	m, found, err := l.session.Newest(ctx, bus.StreamKubernetes, filter.Everything())
	if err != nil {
		return 0, status, err
	}
	if l.publishedUntil = l.checkpoints.Written(); found && m.Time.After(l.publishedUntil) {
		l.publishedUntil = m.Time
	}
	m, found, err = l.session.Newest(ctx, bus.StreamKubernetes, filter.Watch())
	if err != nil {
		return 0, status, err
	}
	var message kube.Message
	if found && json.Unmarshal(m.Data, &message) == nil && message.Cluster == l.name && message.Watch != nil {
		status = *message.Watch
	}
	return state.Last, status, nil
}

// queueWatermark passes a watermark to saveCheckpoints, in place of one that waits.
func (l *leadership) queueWatermark(w outbox.Watermark) {
	select {
	case <-l.watermark:
	default:
	}
	l.watermark <- w
}

// saveCheckpoints saves the watermarks until the outbox ends.
func (l *leadership) saveCheckpoints(ctx context.Context) error {
	for w := range l.watermark {
		for {
			err := l.checkpoints.Save(ctx, outbox.Checkpoint{
				ClusterUID: l.uid, Version: w.Version, Sequence: w.Sequence, Stream: l.streamCreated, By: l.identity.ID,
			})
			if errors.Is(err, outbox.ErrOvertaken) {
				return err
			}
			ended := !pause(ctx, saveEvery)
			if err == nil {
				break
			}
			if ended {
				return context.Cause(ctx)
			}
			l.log.Debug("cannot save the checkpoint; retrying", "error", err)
			w = l.newerWatermark(w)
		}
	}
	return nil
}

// newerWatermark returns the watermark that waits, or w if there is none.
func (l *leadership) newerWatermark(w outbox.Watermark) outbox.Watermark {
	select {
	case newer, open := <-l.watermark:
		if open {
			return newer
		}
	default:
	}
	return w
}

// publishStatus follows the health of the API connection, and publishes when the watch
// becomes degraded and when it has recovered.
func (l *leadership) publishStatus(ctx context.Context, published kube.Watch) error {
	status := watchStatus{published: published}
	l.setStatus(published)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case h := <-l.health:
			if h.Errors > 0 {
				l.metrics.errors.WithLabelValues(l.name).Inc()
				l.log.Debug("a request to the cluster failed", "errors", h.Errors, "error", h.Err)
			}
			before := status.published
			if !status.update(h, time.Now(), l.converter.Line) {
				continue
			}
			now, began := status.published, status.published
			if now.Degraded {
				l.log.Warn("the cluster can't be watched; retrying", "error", now.Error)
			} else {
				began = before
				l.log.Info("the cluster is watched again", "since", before.Since)
			}
			l.setStatus(now)
			if err := l.putStatus(ctx, now, began); err != nil {
				return err
			}
		}
	}
}

// putStatus publishes a status of the watch, with its alert. began is the status with which
// the degraded watch began.
func (l *leadership) putStatus(ctx context.Context, status, began kube.Watch) error {
	id := statusID(l.key, status)
	m := &kube.Message{Cluster: l.name, Watch: &status}
	if uid := l.clusterWatch.uid.Load(); uid != nil {
		m.ClusterUID = *uid
	}
	message, err := kubernetesMessage(m, id)
	if err != nil {
		return err
	}
	alert, err := alertMessage(statusAlert(l.name, status, began), id)
	if err != nil {
		return err
	}
	return l.box.Put(ctx, outbox.Item{
		First: []*nats.Msg{alert}, Then: []*nats.Msg{message},
		Stored: func() { l.metrics.published.WithLabelValues(l.name, publishedWatch).Inc() },
	})
}

// read identifies the cluster and reads it until ctx ends.
func (l *leadership) read(ctx context.Context) error {
	f := feed.New(feed.Config{
		Source: l.client.Events(), Health: l.health, Steps: l.steps, Logger: l.log,
		Relisted:      func() { l.metrics.relists.WithLabelValues(l.name).Inc() },
		CheckIdentity: l.checkIdentity,
	})
	if err := l.identify(ctx, f); err != nil {
		return err
	}
	loop, err := l.newLoop(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.Run(ctx, l.start.Version) })
	group.Go(func() error { return loop.objects.Run(ctx) })
	group.Go(func() error { return loop.run(ctx) })
	err = group.Wait() // ends ctx, which ends the captures
	loop.captures.Wait()
	return err
}

// addressPrefix begins the uid of a cluster that does not reveal its own.
const addressPrefix = "address-"

// checkIdentity returns an error that wraps feed.ErrOther if another cluster answers.
func (l *leadership) checkIdentity(ctx context.Context) error {
	uid, err := l.client.UID(ctx)
	if apierrors.IsForbidden(err) && strings.HasPrefix(l.uid, addressPrefix) {
		return nil
	}
	if err == nil && uid != l.uid {
		err = fmt.Errorf("%w: its uid is %s, and was %s", feed.ErrOther, uid, l.uid)
	}
	return err
}

// identify reads the uid of the cluster. A cluster that has never revealed it is identified
// by its address. One that has is asked until it does: an API server that starts refuses
// everything until it has read the roles, and with another uid nothing would be recalled.
func (l *leadership) identify(ctx context.Context, f *feed.Feed) error {
	before := l.start.ClusterUID
	neverRevealed := before == "" || strings.HasPrefix(before, addressPrefix)
	isFinal := func(err error) bool { return neverRevealed && apierrors.IsForbidden(err) }
	err := f.Retry(ctx, isFinal, func(ctx context.Context) (err error) {
		l.uid, err = l.client.UID(ctx)
		return err
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		l.uid = addressPrefix + l.client.Address()
		l.log.Warn("cannot read the uid of the cluster, so it is identified by its address; allow kubewatch to get the namespace kube-system", "error", err)
	}
	if err := l.claimUID(l.uid, l.name); err != nil {
		l.uid = ""
		return err
	}
	l.clusterWatch.uid.Store(&l.uid)
	if l.start.ClusterUID != l.uid {
		if l.start.Version != "" {
			l.log.Warn("another cluster has this name now; its events are watched from now on", "was", l.start.ClusterUID, "is", l.uid)
		}
		l.start = outbox.Checkpoint{}
	}
	return nil
}
