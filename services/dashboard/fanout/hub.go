package fanout

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
)

var (
	// ErrEnded says that the hub has ended.
	ErrEnded = errors.New("the stream of alerts has ended")
	// ErrOlder says that what a reader wants begins before what is kept.
	ErrOlder = errors.New("older than what is kept")
	// ErrRenewed says that the place is one of another stream.
	ErrRenewed = errors.New("the stream was made anew")
)

// Place is where a reader is.
type Place struct {
	// Generation tells streams apart that begin their sequences again.
	Generation int
	// Seq is the newest alert that it has.
	Seq uint64
}

// Now is what is there at a moment. It never changes.
type Now struct {
	Place
	// From is the sequence from which on Events has every alert of the stream.
	From   uint64
	Events []*Event
}

// Hub is the loop and its readers.
type Hub struct {
	calls chan func(*core)
	ended chan struct{}
	begun chan struct{}
	// now is what the loop has there, for readers that keep up.
	now    atomic.Pointer[Now]
	bounds Bounds
	// dropped is told how many alerts a reader was too slow for.
	dropped func(int)
}

// New makes a hub, which does nothing before Run. Dropped is told how many alerts a
// reader was too slow for, from many goroutines at once; it may be nil.
func New(bounds Bounds, dropped func(alerts int)) *Hub {
	if dropped == nil {
		dropped = func(int) {}
	}
	bounds.Events, bounds.Bytes = cmp.Or(bounds.Events, DefaultEvents), cmp.Or(bounds.Bytes, DefaultBytes)
	h := &Hub{calls: make(chan func(*core)), ended: make(chan struct{}), begun: make(chan struct{}), bounds: bounds, dropped: dropped}
	h.now.Store(&Now{})
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
		<-done // the loop has taken it, and runs it at once
		return nil
	case <-h.ended:
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Begin says what the stream holds: the alerts from a sequence on, up to now. Called
// again it is another stream, whose alerts are still to be told.
func (h *Hub) Begin(ctx context.Context, from uint64, events []*Event) error {
	return h.do(ctx, func(c *core) {
		c.begin(from, events)
		h.now.Store(c.now())
		if c.generation == 1 {
			close(h.begun)
		}
	})
}

// Begun is closed once the stream's past is there.
func (h *Hub) Begun() <-chan struct{} { return h.begun }

// Tell hands the next alerts to every reader. At is the place of the last message,
// also where that was no alert. It waits for no reader.
func (h *Hub) Tell(ctx context.Context, at uint64, events []*Event) error {
	return h.do(ctx, func(c *core) {
		c.add(at, events)
		h.now.Store(c.now())
		c.wake(events)
	})
}

// Now is what is there.
func (h *Hub) Now() *Now { return h.now.Load() }

// Join adds a reader that has all up to a place. The error is ErrOlder or ErrRenewed
// where the place is none to begin from. A reader that has joined has to leave.
func (h *Hub) Join(ctx context.Context, filter Filter, at Place) (r *Reader, err error) {
	doErr := h.do(ctx, func(c *core) { r, err = c.join(filter, at) })
	if r != nil {
		r.hub = h
	}
	return r, errors.Join(doErr, err)
}

// Leave takes a reader out.
func (h *Hub) Leave(r *Reader) {
	_ = h.do(context.Background(), func(c *core) { delete(c.readers, r) }) // of an ended hub it is no reader any more
}

// core is what the loop owns.
type core struct {
	generation int
	at         uint64
	past       past
	readers    map[*Reader]struct{}
}

func newCore(bounds Bounds) *core {
	return &core{past: past{bounds: bounds}, readers: map[*Reader]struct{}{}}
}

func (c *core) begin(from uint64, events []*Event) {
	c.generation++
	c.past, c.at = past{bounds: c.past.bounds, from: from}, max(from, 1)-1
	for _, e := range events {
		c.past.add(e)
		c.at = e.Seq
	}
}

func (c *core) now() *Now {
	return &Now{Place: Place{c.generation, c.at}, From: c.past.from, Events: c.past.events}
}

func (c *core) add(at uint64, events []*Event) {
	for _, e := range events {
		c.past.add(e)
	}
	c.at = at
}

// wake tells the readers that want any of it.
func (c *core) wake(events []*Event) {
	for r := range c.readers {
		before := r.told
		for _, e := range events {
			if r.filter.Wants(e) {
				r.told++
			}
		}
		if r.told > before {
			r.rouse()
		}
	}
}

func (c *core) join(filter Filter, at Place) (*Reader, error) {
	if at.Generation != c.generation {
		return nil, ErrRenewed
	}
	if at.Seq+1 < c.past.from {
		return nil, ErrOlder
	}
	r := &Reader{filter: filter, at: at, wake: make(chan struct{}, 1)}
	r.told = uint64(len(filter.Wanted(after(c.past.events, at.Seq))))
	if r.told > 0 {
		r.rouse()
	}
	c.readers[r] = struct{}{}
	return r, nil
}
