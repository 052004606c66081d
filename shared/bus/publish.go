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
	// stallWait is how long a publish waits for room in the window.
	stallWait = 100 * time.Millisecond
	// ackTimeout is how long an acknowledgement may take before the message
	// counts as not stored. It may be stored all the same.
	ackTimeout = 4 * time.Second
)

// Publisher writes messages and waits for JetStream's acknowledgements. All its
// callers share one bounded window of messages under way. It is safe for
// concurrent use.
type Publisher struct {
	c  *Session
	js jetstream.JetStream
}

// NewPublisher makes a publisher with at most window messages under way.
func NewPublisher(c *Session, window int) (*Publisher, error) {
	js, err := jetstream.New(c.NC,
		jetstream.WithPublishAsyncMaxPending(window),
		jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		return nil, fmt.Errorf("make a publisher: %w", err)
	}
	return &Publisher{c: c, js: js}, nil
}

// Publish writes the messages in order and returns when all are stored, with
// the highest sequence that any of them has.
//
// Its error wraps ErrUnreachable, ErrUnacknowledged, ErrStore, ErrBusy or ErrRefused,
// or is the context's. After an error any of the messages may be stored: whoever tries again must give them
// a Nats-Msg-Id or accept to write them twice.
func (p *Publisher) Publish(ctx context.Context, msgs ...*nats.Msg) (last uint64, err error) {
	if err := p.c.usable(); err != nil {
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

// Sent is a message under way.
type Sent struct{ f jetstream.PubAckFuture }

// Send begins to write a message, for who writes many and waits for each later.
// Messages are stored in the order in which they were sent, but for those that are
// sent again. Its errors are those of Publish.
func (p *Publisher) Send(m *nats.Msg) (Sent, error) {
	if err := p.c.usable(); err != nil {
		return Sent{}, err
	}
	f, err := p.send(m)
	return Sent{f}, err
}

// Wait returns when the message is stored, with its sequence. One that was stored
// before under its Nats-Msg-Id has the sequence that it got then. Its errors are those
// of Publish.
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

// publishError sorts the client's errors into those that callers tell apart.
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
