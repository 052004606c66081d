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
	// ErrTooOld is returned for a position before the alerts that are kept.
	ErrTooOld = errors.New("older than what is kept")
	// ErrRecreated is returned for a position in another stream.
	ErrRecreated = errors.New("the stream was recreated")
)

// Position is where a reader is in the stream.
type Position struct {
	// Generation counts how often the stream was created, with sequences from 1.
	Generation int
	// Seq is the newest alert that the reader has.
	Seq uint64
}

// Snapshot is what the hub keeps at one moment. It never changes.
type Snapshot struct {
	Position
	// From is the first sequence from which Events has every alert of the stream.
	From   uint64
	Events []*Event
}

// Hub passes alerts to its readers.
type Hub struct {
	calls  chan func(*loopState)
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
	h := &Hub{calls: make(chan func(*loopState)), ended: make(chan struct{}), loaded: make(chan struct{}), bounds: bounds, dropped: dropped}
	h.snapshot.Store(&Snapshot{})
	return h
}

// Run runs the loop until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	defer close(h.ended)
	s := newLoopState(h.bounds)
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-h.calls:
			f(s)
		}
	}
}

// do runs f in the loop.
func (h *Hub) do(ctx context.Context, f func(*loopState)) error {
	done := make(chan struct{})
	select {
	case h.calls <- func(s *loopState) { f(s); close(done) }:
		<-done // the loop runs it at once
		return nil
	case <-h.ended:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Load sets the alerts of the stream from a sequence on. A further call is for a recreated
// stream.
func (h *Hub) Load(ctx context.Context, from uint64, events []*Event) error {
	return h.do(ctx, func(s *loopState) {
		s.load(from, events)
		h.snapshot.Store(s.snapshot())
		if s.generation == 1 {
			close(h.loaded)
		}
	})
}

// Loaded is closed after the first Load.
func (h *Hub) Loaded() <-chan struct{} { return h.loaded }

// Publish passes the next alerts to every reader without waiting for any. Last is the
// sequence of the last message, even if that was not an alert.
func (h *Hub) Publish(ctx context.Context, last uint64, events []*Event) error {
	return h.do(ctx, func(s *loopState) {
		s.add(last, events)
		h.snapshot.Store(s.snapshot())
		s.wake(events)
	})
}

// Snapshot returns what the hub keeps now.
func (h *Hub) Snapshot() *Snapshot { return h.snapshot.Load() }

// Join adds a reader that has all alerts up to a position. Its error is [ErrTooOld] or
// [ErrRecreated] if it can't continue from there. The caller must call Leave.
func (h *Hub) Join(ctx context.Context, filter Filter, position Position) (r *Reader, err error) {
	doErr := h.do(ctx, func(s *loopState) { r, err = s.join(filter, position) })
	if r != nil {
		r.hub = h
	}
	return r, errors.Join(doErr, err)
}

// Leave removes a reader.
func (h *Hub) Leave(r *Reader) {
	_ = h.do(context.Background(), func(s *loopState) { delete(s.readers, r) }) // a stopped hub has no readers
}

// loopState is the state that only the loop accesses.
type loopState struct {
	generation int
	last       uint64
	backlog    backlog
	readers    map[*Reader]struct{}
}

func newLoopState(bounds Bounds) *loopState {
	return &loopState{backlog: backlog{bounds: bounds}, readers: map[*Reader]struct{}{}}
}

func (s *loopState) load(from uint64, events []*Event) {
	s.generation++
	s.backlog, s.last = backlog{bounds: s.backlog.bounds, from: from}, max(from, 1)-1
	for _, e := range events {
		s.backlog.add(e)
		s.last = e.Seq
	}
}

func (s *loopState) snapshot() *Snapshot {
	return &Snapshot{Position: Position{s.generation, s.last}, From: s.backlog.from, Events: s.backlog.events}
}

func (s *loopState) add(last uint64, events []*Event) {
	for _, e := range events {
		s.backlog.add(e)
	}
	s.last = last
}

// wake notifies the readers that want any of the events.
func (s *loopState) wake(events []*Event) {
	for r := range s.readers {
		before := r.published
		for _, e := range events {
			if r.filter.Matches(e) {
				r.published++
			}
		}
		if r.published > before {
			r.notify()
		}
	}
}

func (s *loopState) join(filter Filter, position Position) (*Reader, error) {
	if position.Generation != s.generation {
		return nil, ErrRecreated
	}
	if position.Seq+1 < s.backlog.from {
		return nil, ErrTooOld
	}
	r := &Reader{filter: filter, position: position, wake: make(chan struct{}, 1)}
	r.published = uint64(len(filter.Select(after(s.backlog.events, position.Seq))))
	if r.published > 0 {
		r.notify()
	}
	s.readers[r] = struct{}{}
	return r, nil
}
