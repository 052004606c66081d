package detector

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Bounds of publishing alerts.
const (
	// publishQueue is how many alerts may wait to be published. The loop reads no more
	// telemetry while the queue is full.
	publishQueue = 1024
	// publishBatch is how many alerts of a partition are in flight at once.
	publishBatch = 64
	// minPublishRetry and maxPublishRetry bound the pause after a failed publish.
	minPublishRetry = 50 * time.Millisecond
	maxPublishRetry = 2 * time.Second
)

// published is the acknowledgement of a batch of alerts.
type published struct {
	count int
	last  uint64 // highest sequence in ALERTS
}

// alertPublisher publishes alerts until the bus has stored them. An alert that revises
// or resolves another is sent only after all earlier ones are stored; others may be
// stored in any order. The alert's id is the message id, so an alert that was stored
// without an acknowledgement is not stored twice.
type alertPublisher struct {
	publisher *bus.Publisher
	// waitForLease returns when publishing is allowed, or the error of its context.
	waitForLease func(context.Context) error
	alerts       <-chan alert.Alert
	acks         chan<- published
	log          *slog.Logger
	countFailure func()
}

// run publishes until ctx ends, or until alerts is closed and empty.
func (p *alertPublisher) run(ctx context.Context) error {
	for {
		batch, ok := p.nextBatch(ctx)
		if !ok {
			return nil
		}
		last, err := p.publishInOrder(ctx, batch)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a replay publishes the rest
		}
		if err != nil {
			return err
		}
		select {
		case p.acks <- published{count: len(batch), last: last}:
		case <-ctx.Done():
			return nil
		}
	}
}

// nextBatch waits for an alert and returns it with those queued behind it.
func (p *alertPublisher) nextBatch(ctx context.Context) ([]alert.Alert, bool) {
	var batch []alert.Alert
	select {
	case a, ok := <-p.alerts:
		if !ok {
			return nil, false
		}
		batch = append(batch, a)
	case <-ctx.Done():
		return nil, false
	}
	for len(batch) < publishBatch {
		select {
		case a, ok := <-p.alerts:
			if !ok {
				return batch, true
			}
			batch = append(batch, a)
		default:
			return batch, true
		}
	}
	return batch, true
}

// publishInOrder publishes a batch and returns the highest sequence.
func (p *alertPublisher) publishInOrder(ctx context.Context, batch []alert.Alert) (last uint64, err error) {
	for len(batch) > 0 {
		n := independent(batch)
		if last, err = p.publish(ctx, batch[:n]); err != nil {
			return 0, err
		}
		batch = batch[n:]
	}
	return last, nil
}

// independent returns how many alerts at the start of a batch may be in flight at once.
// If one of them fails it is stored after the others. A revision or resolution therefore
// waits until the alert it refers to is stored: a reader would ignore a revision of an
// unknown alert, and would keep an alert open that was resolved before it arrived.
func independent(batch []alert.Alert) int {
	for i := range batch {
		if i > 0 && (batch[i].Revises != "" || batch[i].Resolves != "") {
			return i
		}
	}
	return len(batch)
}

func (p *alertPublisher) publish(ctx context.Context, batch []alert.Alert) (uint64, error) {
	msgs := make([]*nats.Msg, 0, len(batch))
	for _, a := range batch {
		m, err := alertMessage(a)
		if err != nil {
			return 0, err
		}
		msgs = append(msgs, m)
	}
	for delay := minPublishRetry; ; delay = min(2*delay, maxPublishRetry) {
		if err := p.waitForLease(ctx); err != nil {
			return 0, err
		}
		last, err := p.publisher.Publish(ctx, msgs...)
		if err == nil {
			return last, nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		p.countFailure()
		p.log.Warn("cannot publish alerts; retrying", "alerts", len(msgs), "error", err, "retry_in", delay)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func alertMessage(a alert.Alert) (*nats.Msg, error) {
	data, err := a.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode alert %s: %w", a.ID, err)
	}
	m := nats.NewMsg(bus.AlertSubject(a))
	m.Header.Set(jetstream.MsgIDHeader, a.ID)
	m.Data = data
	return m, nil
}

// publishedSince returns the ids of the alerts stored after a position in ALERTS. A
// replay raises them again, and they must not be published twice. Their number is
// bounded by what ALERTS keeps. The investigator's revisions are left out: no replay raises
// them.
func publishedSince(ctx context.Context, s *bus.Session, after bus.Position, log *slog.Logger) (map[string]struct{}, error) {
	ids := map[string]struct{}{}
	err := s.ReadToEnd(ctx, bus.FollowConfig{Stream: bus.StreamAlerts, After: after, HeadersOnly: true, Logger: log}, func(m bus.Message) error {
		if id := m.Header.Get(jetstream.MsgIDHeader); !alert.IsInvestigationID(id) {
			ids[id] = struct{}{}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the alerts published since the snapshot: %w", err)
	}
	return ids, nil
}
