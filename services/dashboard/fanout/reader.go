package fanout

import "context"

// Bounds of what a reader takes at once, so that one that is stuck holds little that
// nobody else does.
const (
	takenEvents = 64
	takenBytes  = 256 << 10
)

// Reader is one who reads along. It is for one goroutine; the loop owns what is said
// to be its.
type Reader struct {
	hub    *Hub
	filter Filter
	wake   chan struct{}
	// told is how many alerts it wants that were told since it joined, or that it came
	// for. The loop owns it.
	told uint64
	// taken is how many of those it has taken, or knows that it will not get, and at
	// up to where.
	taken uint64
	at    Place
}

// rouse says that there is something to take. It is remembered once.
func (r *Reader) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Wake signals that there is something to take.
func (r *Reader) Wake() <-chan struct{} { return r.wake }

// Taken is what a reader takes at once.
type Taken struct {
	// Dropped is how many alerts it did not get, before Events: it was too slow.
	Dropped int
	Events  []*Event
	// More says that there is more to take.
	More bool
}

// Take returns what came since the last time, in order. A reader that is behind by
// more than is kept learns how much it lost.
func (r *Reader) Take(ctx context.Context) (t Taken, err error) {
	now := r.hub.now.Load()
	if now.Generation != r.at.Generation || r.at.Seq+1 < now.From {
		var told uint64
		err := r.hub.do(ctx, func(c *core) { now, told = c.now(), r.told })
		if err != nil {
			return t, err
		}
		t.Dropped = r.skip(now, told)
		r.hub.dropped(t.Dropped)
	}
	t.Events, t.More = r.next(now)
	return t, nil
}

// skip goes to the beginning of what is kept, at a moment when so many were told, and
// returns how many it wanted that are not there any more.
func (r *Reader) skip(now *Now, told uint64) int {
	r.at = Place{now.Generation, max(now.From, 1) - 1}
	left := uint64(len(r.filter.Wanted(now.Events)))
	lost := told - r.taken - left
	r.taken += lost
	return int(lost)
}

// next are the next ones that it wants.
func (r *Reader) next(now *Now) (events []*Event, more bool) {
	bytes := 0
	for _, e := range after(now.Events, r.at.Seq) {
		if !r.filter.Wants(e) {
			continue
		}
		if len(events) == takenEvents || bytes > 0 && bytes+len(e.Frame) > takenBytes {
			r.at.Seq = events[len(events)-1].Seq
			r.taken += uint64(len(events))
			return events, true
		}
		events, bytes = append(events, e), bytes+len(e.Frame)
	}
	r.at.Seq = max(r.at.Seq, now.Seq)
	r.taken += uint64(len(events))
	return events, false
}
