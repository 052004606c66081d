// Package outbox publishes items in order and reports up to which item all is stored.
//
// An item counts as stored once the bus has acknowledged it and everything before it. Many
// messages are in flight at once. A message that is not acknowledged is sent again with the
// same Nats-Msg-Id until it is. A checkpoint saves the progress for the next kubewatch
// (checkpoint.go). The package does not know what the messages contain.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// Window is how many items may be in flight. Past it, Put waits.
	Window = 1024
	// maxPerItem is how many messages of an item may be in flight.
	maxPerItem = 4
	// RetryFor is how long a message is sent again. A server recognizes an id for 2 min;
	// after that it could store the message twice. A new outbox reads the stream first.
	RetryFor = time.Minute
	// minRetryPause and maxRetryPause bound the pause before a message is sent again.
	minRetryPause = 50 * time.Millisecond
	maxRetryPause = 2 * time.Second
)

// ErrRetryFor is returned if a message was not stored for RetryFor.
var ErrRetryFor = errors.New("the bus has not stored a message for too long")

// Item is a set of messages that counts as stored when all of them are.
type Item struct {
	// First are stored before Then are sent. Both may be empty: then the item only moves
	// the watermark.
	First, Then []*nats.Msg
	// Version is the resourceVersion up to which all is published with this item, empty
	// if the item is not a step of the watch.
	Version string
	// Stored is called once the item is stored. It may be nil.
	Stored func()
}

// Watermark is up to where everything is stored.
type Watermark struct {
	Version string
	// Sequence is a lower bound: every message published after Version has a higher
	// stream sequence.
	Sequence uint64
}

// Box publishes items. Put and Close are for one goroutine.
type Box struct {
	cfg Config
	// sequence is the highest that the bus has acknowledged.
	sequence atomic.Uint64
	queue    chan Item
	flights  chan flight
	// sending has room for one token, held by the goroutine that may send: confirm holds
	// it while it sends again what was not stored, so that nothing newer overtakes that.
	sending chan struct{}
}

// flight is an item that was sent.
type flight struct {
	Item
	messages []sentMessage
	// floor is the value of sequence before the item was sent.
	floor uint64
	// stored is closed once the item is stored; nil if nothing waits for it.
	stored chan struct{}
}

type sentMessage struct {
	msg  *nats.Msg
	sent bus.Sent
	err  error // why it was not sent, or not stored
}

// Config configures a Box.
type Config struct {
	Publisher *bus.Publisher
	// Sequence is the sequence up to which the stream was read, or a lower one.
	Sequence uint64
	// Advanced is called, from one goroutine, each time that all is stored up to a newer
	// version. It should not block.
	Advanced func(Watermark)
	// Resent is called for each message that is sent again. It may be nil.
	Resent func()
	Logger *slog.Logger
}

// NewPublisher returns a publisher with room for the messages that one box has in flight.
func NewPublisher(s *bus.Session) (*bus.Publisher, error) {
	return bus.NewPublisher(s, Window*maxPerItem)
}

// New returns a box.
func New(cfg Config) *Box {
	if cfg.Resent == nil {
		cfg.Resent = func() {}
	}
	b := &Box{cfg: cfg, queue: make(chan Item), flights: make(chan flight, Window), sending: make(chan struct{}, 1)}
	b.sequence.Store(cfg.Sequence)
	return b
}

// Put accepts an item. It waits while Window items are in flight, until ctx ends.
func (b *Box) Put(ctx context.Context, item Item) error {
	select {
	case b.queue <- item:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the queue: Run returns once everything is stored.
func (b *Box) Close() { close(b.queue) }

// Run publishes the items until Close, and then returns nil when all are stored. When ctx
// ends it returns its cause at once; messages in flight may be stored or not. It fails with
// ErrRetryFor.
func (b *Box) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.send(ctx) })
	group.Go(func() error { return b.confirm(ctx) })
	return group.Wait()
}

// send sends the items in order.
func (b *Box) send(ctx context.Context) error {
	defer close(b.flights)
	for {
		var item Item
		var open bool
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case item, open = <-b.queue:
			if !open {
				return nil
			}
		}
		if err := b.sendItem(ctx, item); err != nil {
			return err
		}
	}
}

func (b *Box) sendItem(ctx context.Context, item Item) error {
	f := flight{Item: item, floor: b.sequence.Load()}
	for _, m := range b.sendAll(item.First) {
		if _, err := b.store(ctx, m); err != nil {
			return err
		}
	}
	if err := b.acquireSending(ctx); err != nil {
		return err
	}
	f.messages = b.sendAll(item.Then)
	b.releaseSending()
	if slices.ContainsFunc(f.messages, func(m sentMessage) bool { return m.err != nil }) {
		f.stored = make(chan struct{})
	}
	select {
	case b.flights <- f:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if f.stored == nil {
		return nil
	}
	// The bus is unreachable. Nothing newer is sent until this item and all before it are
	// stored.
	select {
	case <-f.stored:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// acquireSending waits until nothing is being sent again.
func (b *Box) acquireSending(ctx context.Context) error {
	select {
	case b.sending <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *Box) releaseSending() { <-b.sending }

func (b *Box) sendAll(msgs []*nats.Msg) []sentMessage {
	sent := make([]sentMessage, len(msgs))
	for i, m := range msgs {
		sent[i].msg = m
		sent[i].sent, sent[i].err = b.cfg.Publisher.Send(m)
	}
	return sent
}

// confirm waits for the acknowledgements in the order of sending.
func (b *Box) confirm(ctx context.Context) error {
	for f := range b.flights {
		if !b.acknowledged(ctx, &f) {
			if err := b.resend(ctx, f); err != nil {
				return err
			}
			continue
		}
		b.done(f)
	}
	return nil
}

// acknowledged waits for the acknowledgements of a flight and reports whether all came. It
// leaves the messages from the first failed one on.
func (b *Box) acknowledged(ctx context.Context, f *flight) bool {
	for ; len(f.messages) > 0; f.messages = f.messages[1:] {
		m := &f.messages[0]
		if m.err != nil {
			return false
		}
		seq, err := m.sent.Wait(ctx)
		if err != nil {
			m.err = err
			return false
		}
		b.advanceSequence(seq)
	}
	return true
}

// resend stores a flight that was not acknowledged, and those behind it until nothing is in
// flight. Meanwhile nothing else is sent, because it would overtake them.
func (b *Box) resend(ctx context.Context, f flight) error {
	if err := b.acquireSending(ctx); err != nil {
		return err
	}
	defer b.releaseSending()
	for {
		for _, m := range f.messages {
			seq, err := b.store(ctx, m)
			if err != nil {
				return err
			}
			b.advanceSequence(seq)
		}
		b.done(f)
		if len(b.flights) == 0 {
			return nil
		}
		f = <-b.flights // only this goroutine receives from it
	}
}

// done reports a stored flight.
func (b *Box) done(f flight) {
	if f.stored != nil {
		close(f.stored)
	}
	if f.Stored != nil {
		f.Stored()
	}
	if f.Version != "" {
		b.cfg.Advanced(Watermark{Version: f.Version, Sequence: f.floor})
	}
}

func (b *Box) advanceSequence(seq uint64) { b.sequence.Store(max(seq, b.sequence.Load())) }

// store waits until a message is stored, and sends it again as often as needed.
func (b *Box) store(ctx context.Context, m sentMessage) (seq uint64, err error) {
	err = m.err
	if err == nil {
		seq, err = m.sent.Wait(ctx)
	}
	start, pause := time.Now(), minRetryPause
	for err != nil {
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject):
			// The size of messages is bounded so that this is not reached.
			b.cfg.Logger.Error("skipped a message that the bus refuses", "subject", m.msg.Subject, "bytes", len(m.msg.Data), "error", err)
			return 0, nil
		case time.Since(start) > RetryFor:
			return 0, fmt.Errorf("%w: %w", ErrRetryFor, err)
		}
		b.cfg.Logger.Debug("sending a message again", "subject", m.msg.Subject, "error", err)
		b.cfg.Resent()
		if seq, err = b.cfg.Publisher.Publish(ctx, m.msg); err == nil {
			break
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return 0, context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(2*pause, maxRetryPause)
	}
	return seq, nil
}
