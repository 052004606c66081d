package fanout

import (
	"context"
	"errors"
	"sync/atomic"
)

// queued is how many alerts wait for one reader at most. Beyond, they are dropped
// for it, and counted.
const queued = 256

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

// Now is what is there at a moment.
type Now struct {
	Place
	// From is the sequence from which on Events has every alert of the stream.
	From   uint64
	Events []*Event
}

// Hub is the loop and its readers.
type Hub struct {
	calls   chan func(*core)
	ended   chan struct{}
	begun   chan struct{}
	dropped func(int)
}

// New makes a hub, which does nothing before Run. Dropped is told how many alerts
// were dropped for a reader; it may be nil.
func New(dropped func(alerts int)) *Hub {
	if dropped == nil {
		dropped = func(int) {}
	}
	return &Hub{calls: make(chan func(*core)), ended: make(chan struct{}), begun: make(chan struct{}), dropped: dropped}
}

// Run owns the readers until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	defer close(h.ended)
	c := core{readers: map[*Reader]struct{}{}, dropped: h.dropped}
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-h.calls:
			f(&c)
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
	return h.do(ctx, func(c *core) { c.tell(at, events) })
}

// Now is what is there.
func (h *Hub) Now(ctx context.Context) (now Now, err error) {
	err = h.do(ctx, func(c *core) { now = c.now() })
	return now, err
}

// Join adds a reader that has all up to a place, and returns what came since. From
// there on alerts come to its queue. The error is ErrOlder or ErrRenewed where the
// place is none to begin from. A reader that has joined has to leave.
func (h *Hub) Join(ctx context.Context, filter Filter, at Place) (r *Reader, since []*Event, err error) {
	doErr := h.do(ctx, func(c *core) { r, since, err = c.join(filter, at) })
	return r, since, errors.Join(doErr, err)
}

// Leave takes a reader out.
func (h *Hub) Leave(r *Reader) {
	_ = h.do(context.Background(), func(c *core) { delete(c.readers, r) }) // of an ended hub it is no reader any more
}

// Delivery is an alert in a reader's queue.
type Delivery struct {
	*Event
	// Missed is how many were dropped before it.
	Missed int
}

// Reader is one who reads along.
type Reader struct {
	filter Filter
	queue  chan Delivery
	missed atomic.Int64
}

// Queue is where its alerts come.
func (r *Reader) Queue() <-chan Delivery { return r.queue }

// Missed is how many were dropped since what came last, once: to be asked when the
// queue is empty, and nothing may come for long.
func (r *Reader) Missed() int { return int(r.missed.Swap(0)) }

// core is what the loop owns.
type core struct {
	generation int
	at         uint64
	past       past
	readers    map[*Reader]struct{}
	dropped    func(int)
}

func (c *core) begin(from uint64, events []*Event) {
	c.generation++
	c.past, c.at = past{from: from}, max(from, 1)-1
	for _, e := range events {
		c.past.add(e)
		c.at = e.Seq
	}
}

func (c *core) now() Now {
	events, _ := c.past.after(0)
	return Now{Place: Place{c.generation, c.at}, From: c.past.from, Events: events}
}

func (c *core) tell(at uint64, events []*Event) {
	for _, e := range events {
		c.past.add(e)
		for r := range c.readers {
			c.offer(r, e)
		}
	}
	c.at = at
}

// offer puts an alert into a reader's queue, or counts it.
func (c *core) offer(r *Reader, e *Event) {
	if !r.filter.Wants(e) {
		return
	}
	if len(r.queue) == cap(r.queue) { // nobody else puts anything in
		r.missed.Add(1)
		c.dropped(1)
		return
	}
	r.queue <- Delivery{e, r.Missed()}
}

func (c *core) join(filter Filter, at Place) (*Reader, []*Event, error) {
	if at.Generation != c.generation {
		return nil, nil, ErrRenewed
	}
	since, whole := c.past.after(at.Seq)
	if !whole {
		return nil, nil, ErrOlder
	}
	r := &Reader{filter: filter, queue: make(chan Delivery, queued)}
	c.readers[r] = struct{}{}
	return r, filter.Wanted(since), nil
}
