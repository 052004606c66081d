package fanout

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
)

var (
	// ErrStopped is returned after the hub has stopped.
	ErrStopped = errors.New("the stream of alerts has ended")
	// ErrOlder is returned for a position before the alerts that are kept.
	ErrOlder = errors.New("older than what is kept")
	// ErrRecreated is returned for a position in another stream.
	ErrRecreated = errors.New("the stream was recreated")
)

// Position is where a reader is in the stream.
type Position struct {
	// Generation counts the streams, each of which starts its sequences again.
	Generation int
	// Seq is the newest alert that the reader has.
	Seq uint64
}

// Snapshot is what the hub keeps at one moment. It never changes.
type Snapshot struct {
	Position
	// From is the sequence from which on Events has every alert of the stream.
	From   uint64
	Events []*Event
}

// Hub is the loop with its readers.
type Hub struct {
	calls  chan func(*core)
	ended  chan struct{}
	loaded chan struct{}
	// snapshot is the newest one, for readers that keep up.
	snapshot atomic.Pointer[Snapshot]
	bounds   Bounds
	// dropped is called with the number of alerts that a slow reader missed.
	dropped func(int)
}

// New returns a hub, which does nothing before Run. It calls dropped, which may be nil, with
// the number of alerts that a slow reader missed, from many goroutines at once.
func New(bounds Bounds, dropped func(alerts int)) *Hub {
	if dropped == nil {
		dropped = func(int) {}
	}
	bounds.Events, bounds.Bytes = cmp.Or(bounds.Events, DefaultEvents), cmp.Or(bounds.Bytes, DefaultBytes)
	h := &Hub{calls: make(chan func(*core)), ended: make(chan struct{}), loaded: make(chan struct{}), bounds: bounds, dropped: dropped}
	h.snapshot.Store(&Snapshot{})
	return h
}

// Run owns the readers until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	defer close(h.ended)
	c := newCore(h.bounds)
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-h.calls:
			f(c)
		}
	}
}

// do runs f in the loop.
func (h *Hub) do(ctx context.Context, f func(*core)) error {
	done := make(chan struct{})
	select {
	case h.calls <- func(c *core) { f(c); close(done) }:
		<-done // the loop runs it at once
		return nil
	case <-h.ended:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Load sets the alerts that the stream holds from a sequence on. Another call is for
// another stream, whose alerts follow by Publish.
func (h *Hub) Load(ctx context.Context, from uint64, events []*Event) error {
	return h.do(ctx, func(c *core) {
		c.load(from, events)
		h.snapshot.Store(c.snapshot())
		if c.generation == 1 {
			close(h.loaded)
		}
	})
}

// Loaded is closed after the first Load.
func (h *Hub) Loaded() <-chan struct{} { return h.loaded }

// Publish passes the next alerts to every reader, and waits for none. At is the sequence of
// the last message, even if that was not an alert.
func (h *Hub) Publish(ctx context.Context, at uint64, events []*Event) error {
	return h.do(ctx, func(c *core) {
		c.add(at, events)
		h.snapshot.Store(c.snapshot())
		c.wake(events)
	})
}

// Snapshot returns what the hub keeps now.
func (h *Hub) Snapshot() *Snapshot { return h.snapshot.Load() }

// Join adds a reader that has everything up to a position. Its error is [ErrOlder] or
// [ErrRecreated] if it can't continue from there. The caller must call Leave.
func (h *Hub) Join(ctx context.Context, filter Filter, at Position) (r *Reader, err error) {
	doErr := h.do(ctx, func(c *core) { r, err = c.join(filter, at) })
	if r != nil {
		r.hub = h
	}
	return r, errors.Join(doErr, err)
}

// Leave removes a reader.
func (h *Hub) Leave(r *Reader) {
	_ = h.do(context.Background(), func(c *core) { delete(c.readers, r) }) // a stopped hub has no readers
}

// core is the state of the loop.
type core struct {
	generation int
	at         uint64
	backlog    backlog
	readers    map[*Reader]struct{}
}

func newCore(bounds Bounds) *core {
	return &core{backlog: backlog{bounds: bounds}, readers: map[*Reader]struct{}{}}
}

func (c *core) load(from uint64, events []*Event) {
	c.generation++
	c.backlog, c.at = backlog{bounds: c.backlog.bounds, from: from}, max(from, 1)-1
	for _, e := range events {
		c.backlog.add(e)
		c.at = e.Seq
	}
}

func (c *core) snapshot() *Snapshot {
	return &Snapshot{Position: Position{c.generation, c.at}, From: c.backlog.from, Events: c.backlog.events}
}

func (c *core) add(at uint64, events []*Event) {
	for _, e := range events {
		c.backlog.add(e)
	}
	c.at = at
}

// wake notifies the readers that want any of the events.
func (c *core) wake(events []*Event) {
	for r := range c.readers {
		before := r.published
		for _, e := range events {
			if r.filter.Wants(e) {
				r.published++
			}
		}
		if r.published > before {
			r.notify()
		}
	}
}

func (c *core) join(filter Filter, at Position) (*Reader, error) {
	if at.Generation != c.generation {
		return nil, ErrRecreated
	}
	if at.Seq+1 < c.backlog.from {
		return nil, ErrOlder
	}
	r := &Reader{filter: filter, at: at, wake: make(chan struct{}, 1)}
	r.published = uint64(len(filter.Wanted(after(c.backlog.events, at.Seq))))
	if r.published > 0 {
		r.notify()
	}
	c.readers[r] = struct{}{}
	return r, nil
}
