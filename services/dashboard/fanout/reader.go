package fanout

import "context"

// Bounds of a batch, so that a blocked reader uses little memory.
const (
	maxBatchEvents = 64
	maxBatchBytes  = 256 << 10
)

// Reader is one reader of the alerts, for one goroutine. Only the loop accesses published.
type Reader struct {
	hub    *Hub
	filter Filter
	wake   chan struct{}
	// published counts the alerts that match its filter, since its first position.
	published uint64
	// taken counts those of them that it has taken or missed, up to the position at.
	taken uint64
	at    Position
}

// notify signals that there is something to take. Signals do not add up.
func (r *Reader) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Wake receives when there is something to take.
func (r *Reader) Wake() <-chan struct{} { return r.wake }

// Batch is the result of [Reader.Take].
type Batch struct {
	// Dropped is how many alerts the reader missed before Events, because it was too slow.
	Dropped int
	Events  []*Event
	// More reports whether there is more to take.
	More bool
}

// Take returns the next alerts in order, and the number of alerts that the reader missed.
func (r *Reader) Take(ctx context.Context) (t Batch, err error) {
	snapshot := r.hub.snapshot.Load()
	if snapshot.Generation != r.at.Generation || r.at.Seq+1 < snapshot.From {
		var published uint64
		err := r.hub.do(ctx, func(c *loopState) { snapshot, published = c.snapshot(), r.published })
		if err != nil {
			return t, err
		}
		t.Dropped = r.skip(snapshot, published)
		r.hub.dropped(t.Dropped)
	}
	t.Events, t.More = r.next(snapshot)
	return t, nil
}

// skip moves to the first alert that is kept, and returns how many matching alerts the reader
// missed. Published is how many matched so far.
func (r *Reader) skip(snapshot *Snapshot, published uint64) int {
	r.at = Position{snapshot.Generation, max(snapshot.From, 1) - 1}
	left := uint64(len(r.filter.Select(snapshot.Events)))
	lost := published - r.taken - left
	r.taken += lost
	return int(lost)
}

// next returns the next alerts that match the filter.
func (r *Reader) next(snapshot *Snapshot) (events []*Event, more bool) {
	bytes := 0
	for _, e := range after(snapshot.Events, r.at.Seq) {
		if !r.filter.Matches(e) {
			continue
		}
		if len(events) == maxBatchEvents || bytes > 0 && bytes+len(e.Frame) > maxBatchBytes {
			r.at.Seq = events[len(events)-1].Seq
			r.taken += uint64(len(events))
			return events, true
		}
		events, bytes = append(events, e), bytes+len(e.Frame)
	}
	r.at.Seq = max(r.at.Seq, snapshot.Seq)
	r.taken += uint64(len(events))
	return events, false
}
