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
	// taken counts those of them that it has taken or missed, up to its position.
	taken    uint64
	position Position
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
func (r *Reader) Take(ctx context.Context) (batch Batch, err error) {
	snapshot := r.hub.snapshot.Load()
	if snapshot.Generation != r.position.Generation || r.position.Seq+1 < snapshot.From {
		var published uint64
		err := r.hub.do(ctx, func(s *loopState) { snapshot, published = s.snapshot(), r.published })
		if err != nil {
			return batch, err
		}
		batch.Dropped = r.skip(snapshot, published)
		r.hub.dropped(batch.Dropped)
	}
	batch.Events, batch.More = r.next(snapshot)
	return batch, nil
}

// skip moves to the first alert that is kept, and returns how many matching alerts the reader
// missed. Published is how many matched so far.
func (r *Reader) skip(snapshot *Snapshot, published uint64) int {
	r.position = Position{snapshot.Generation, max(snapshot.From, 1) - 1}
	left := uint64(len(r.filter.Select(snapshot.Events)))
	lost := published - r.taken - left
	r.taken += lost
	return int(lost)
}

// next returns the next alerts that match the filter.
func (r *Reader) next(snapshot *Snapshot) (events []*Event, more bool) {
	size := 0
	for _, e := range after(snapshot.Events, r.position.Seq) {
		if !r.filter.Matches(e) {
			continue
		}
		if len(events) == maxBatchEvents || size > 0 && size+len(e.Frame) > maxBatchBytes {
			r.position.Seq = events[len(events)-1].Seq
			r.taken += uint64(len(events))
			return events, true
		}
		events, size = append(events, e), size+len(e.Frame)
	}
	r.position.Seq = max(r.position.Seq, snapshot.Seq)
	r.taken += uint64(len(events))
	return events, false
}
