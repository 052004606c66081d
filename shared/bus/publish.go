package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bounds of publishing.
const (
	// stallWait is how long a publish waits for room in the window of unacknowledged
	// messages.
	stallWait = 100 * time.Millisecond
	// ackTimeout is how long an acknowledgement may take before the message counts as not
	// stored, though it may be.
	ackTimeout = 4 * time.Second
)

// Publisher publishes messages and waits for JetStream's acknowledgements. All its callers
// share one bounded window of unacknowledged messages. It is safe for concurrent use.
type Publisher struct {
	c  *Session
	js jetstream.JetStream
}

// NewPublisher returns a publisher with at most window unacknowledged messages.
func NewPublisher(c *Session, window int) (*Publisher, error) {
	js, err := jetstream.New(c.NC,
		jetstream.WithPublishAsyncMaxPending(window),
		jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		return nil, fmt.Errorf("create a publisher: %w", err)
	}
	return &Publisher{c: c, js: js}, nil
}

// Publish publishes messages in order and returns when all are stored, with the highest
// sequence among them.
//
// The error wraps [ErrUnreachable], [ErrUnacknowledged], [ErrStore], [ErrBusy] or
// [ErrRefused], or the cause of ctx. After an error any of the messages may be stored: to
// publish them again without duplicates, give them a Nats-Msg-Id.
func (p *Publisher) Publish(ctx context.Context, msgs ...*nats.Msg) (last uint64, err error) {
	if err := p.c.checkUsable(); err != nil {
		return 0, err
	}
	acks := make([]jetstream.PubAckFuture, 0, len(msgs))
	for _, m := range msgs {
		f, sendErr := p.send(m)
		if sendErr != nil {
			err = sendErr
			break
		}
		acks = append(acks, f)
	}
	for _, f := range acks {
		seq, waitErr := wait(ctx, f)
		if waitErr != nil && err == nil {
			err = waitErr
		}
		last = max(last, seq)
	}
	return last, err
}

// Sent is a message that was sent and is not acknowledged yet.
type Sent struct{ f jetstream.PubAckFuture }

// Send sends a message without waiting for its acknowledgement, see [Sent.Wait]. Messages
// are stored in the order in which they were sent, but for those that are sent again. The
// errors are those of [Publisher.Publish].
func (p *Publisher) Send(m *nats.Msg) (Sent, error) {
	if err := p.c.checkUsable(); err != nil {
		return Sent{}, err
	}
	f, err := p.send(m)
	return Sent{f}, err
}

// Wait returns when the message is stored, with its sequence. A message that was stored
// before under its Nats-Msg-Id has its first sequence. The errors are those of
// [Publisher.Publish].
func (s Sent) Wait(ctx context.Context) (seq uint64, err error) { return wait(ctx, s.f) }

func (p *Publisher) send(m *nats.Msg) (jetstream.PubAckFuture, error) {
	f, err := p.js.PublishMsgAsync(m, jetstream.WithStallWait(stallWait))
	if err != nil {
		return nil, publishError(m.Subject, err)
	}
	return f, nil
}

func wait(ctx context.Context, f jetstream.PubAckFuture) (uint64, error) {
	select {
	case ack := <-f.Ok():
		return ack.Sequence, nil
	case err := <-f.Err():
		return 0, publishError(f.Msg().Subject, err)
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the acknowledgement of %s: %w", f.Msg().Subject, context.Cause(ctx))
	}
}

// publishError wraps an error of the client in one of the errors of Publish.
func publishError(subject string, err error) error {
	kind := ErrUnreachable // disconnects, no responders
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrAsyncPublishTimeout):
		kind = ErrUnacknowledged
	case errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		kind = ErrBusy
	case errors.As(err, &api), errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject):
		kind = ErrRefused
	}
	return fmt.Errorf("publish to %s: %w: %w", subject, kind, err)
}
