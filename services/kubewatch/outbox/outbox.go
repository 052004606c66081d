// Package outbox publishes in order and says up to where all is stored.
//
// It decides when something counts as published: once the bus has acknowledged it
// and everything before it. Many messages are under way at once, and what the bus
// does not acknowledge is sent again until it does, under the same Nats-Msg-Id; so
// nothing that it took is lost while it runs, and what it says is stored is. It
// doesn't know what the messages say, nor where it is kept how far it came.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Bounds.
const (
	// Window is how many items may be under way. At that, Put waits.
	Window = 1024
	// perItem is how many messages of an item are under way at most.
	perItem = 4
	// Patience is how long one message is sent again. A server knows an id for 2 min:
	// later it may store a message twice. Who then begins anew reads in the stream what
	// is there.
	Patience = time.Minute
	// retryMin and retryMax bound the pause before a message is sent again.
	retryMin = 50 * time.Millisecond
	retryMax = 2 * time.Second
)

// ErrPatience says that a message was not stored for so long that it is not safe any
// more to send it again.
var ErrPatience = errors.New("the bus has not stored a message for too long")

// Item is what belongs together: it counts as stored when all of it is.
type Item struct {
	// First are stored before Then are sent. Both may be empty: then the item only says
	// how far the reader came.
	First, Then []*nats.Msg
	// Version is the resourceVersion that all is published up to with this item. It is
	// empty for what is no step of the watch.
	Version string
	// Stored is called once it is. It may be nil.
	Stored func()
}

// Place is up to where everything is stored.
type Place struct {
	Version string
	// Sequence is one that everything has a higher sequence than that comes after the
	// version. It may be lower than that of what is stored last.
	Sequence uint64
}

// Box publishes. Put and Close are for one goroutine.
type Box struct {
	publisher *bus.Publisher
	// sequence is the highest that the bus has acknowledged.
	sequence atomic.Uint64
	// line is held by who sends: settle, while it sends again what was not stored, so that
	// nothing newer goes ahead of that.
	line    sync.Mutex
	queue   chan Item
	flights chan flight
	reached func(Place)
	again   func()
	log     *slog.Logger
}

// flight is an item that was sent.
type flight struct {
	Item
	sent []way
	// floor is what sequence was before anything of it was sent.
	floor uint64
	// settled is closed once it is stored, where somebody waits for that.
	settled chan struct{}
}

type way struct {
	msg  *nats.Msg
	sent bus.Sent
	// err is why it was not sent.
	err error
}

// Config says how to publish.
type Config struct {
	Publisher *bus.Publisher
	// Sequence is up to where the stream was read, or lower.
	Sequence uint64
	// Reached is told each time that all is stored up to a newer version, from one
	// goroutine. It should not wait.
	Reached func(Place)
	// Again is called for each message that is sent again. It may be nil.
	Again  func()
	Logger *slog.Logger
}

// NewPublisher makes a publisher with room for what one box has under way.
func NewPublisher(c *bus.Conn) (*bus.Publisher, error) {
	return bus.NewPublisher(c, Window*perItem)
}

// New makes a box.
func New(cfg Config) *Box {
	b := &Box{
		publisher: cfg.Publisher, queue: make(chan Item), flights: make(chan flight, Window),
		reached: cfg.Reached, again: cfg.Again, log: cfg.Logger,
	}
	b.sequence.Store(cfg.Sequence)
	return b
}

// Put takes an item. It waits while as many are under way as may be, until ctx ends.
func (b *Box) Put(ctx context.Context, item Item) error {
	select {
	case b.queue <- item:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close says that nothing more comes.
func (b *Box) Close() { close(b.queue) }

// Run publishes what was put until Close, and then returns when all is stored. When
// ctx ends it returns at once, with its error; what is under way may be stored or not.
// It fails with ErrPatience, and where the bus refuses a message for good.
func (b *Box) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.send(ctx) })
	group.Go(func() error { return b.settle(ctx) })
	return group.Wait()
}

// send sends items in order.
func (b *Box) send(ctx context.Context) error {
	defer close(b.flights)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case item, more := <-b.queue:
			if !more {
				return nil
			}
			f := flight{Item: item, floor: b.sequence.Load()}
			first := b.all(item.First)
			for _, w := range first {
				if _, err := b.stored(ctx, w); err != nil {
					return err
				}
			}
			b.line.Lock()
			f.sent = b.all(item.Then)
			b.line.Unlock()
			if slices.ContainsFunc(f.sent, func(w way) bool { return w.err != nil }) {
				f.settled = make(chan struct{})
			}
			select {
			case b.flights <- f:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if f.settled == nil {
				continue
			}
			select { // the bus is away: nothing newer is sent before it has this, and all before
			case <-f.settled:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

func (b *Box) all(msgs []*nats.Msg) []way {
	ways := make([]way, len(msgs))
	for i, m := range msgs {
		ways[i].msg = m
		ways[i].sent, ways[i].err = b.publisher.Send(m)
	}
	return ways
}

// settle waits for the acknowledgements in the order in which was sent.
func (b *Box) settle(ctx context.Context) error {
	holding := false
	release := func() {
		if holding {
			holding = false
			b.line.Unlock()
		}
	}
	defer release()
	for f := range b.flights {
		for _, w := range f.sent {
			var seq uint64
			if w.err == nil {
				seq, w.err = w.sent.Wait(ctx)
			}
			if w.err != nil {
				if !holding { // until all that is under way is stored
					b.line.Lock()
					holding = true
				}
				var err error
				if seq, err = b.stored(ctx, w); err != nil {
					return err
				}
			}
			b.sequence.Store(max(seq, b.sequence.Load()))
		}
		if f.settled != nil {
			close(f.settled)
		}
		if len(b.flights) == 0 {
			release()
		}
		if f.Stored != nil {
			f.Stored()
		}
		if f.Version != "" {
			b.reached(Place{Version: f.Version, Sequence: f.floor})
		}
	}
	return nil
}

// stored waits until a message is, and sends it again as often as that takes.
func (b *Box) stored(ctx context.Context, w way) (seq uint64, err error) {
	err = w.err
	if err == nil {
		seq, err = w.sent.Wait(ctx)
	}
	begun, pause := time.Now(), retryMin
	for err != nil {
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject):
			// It will never be stored, and is bounded so that this is not reached.
			b.log.Error("a message that the bus refuses is left out", "subject", w.msg.Subject, "bytes", len(w.msg.Data), "error", err)
			return 0, nil
		case time.Since(begun) > Patience:
			return 0, fmt.Errorf("%w: %w", ErrPatience, err)
		}
		b.log.Debug("a message is sent again", "subject", w.msg.Subject, "error", err)
		if b.again != nil {
			b.again()
		}
		if seq, err = b.publisher.Publish(ctx, w.msg); err == nil {
			break
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return 0, context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(2*pause, retryMax)
	}
	return seq, nil
}
