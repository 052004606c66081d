package fanout

import "slices"

// Bounds limit how many alerts are kept for readers that join, resume or are slow. Over
// either limit the oldest is dropped: a reader that joins reads it from the bus, and a slow
// reader learns how many alerts it missed.
type Bounds struct {
	// Events is the maximum number, 0 for DefaultEvents, and Bytes the maximum total size,
	// 0 for DefaultBytes. One alert is always kept.
	Events, Bytes int
}

// The default bounds.
const (
	DefaultEvents = 4096
	DefaultBytes  = 16 << 20
)

// backlog has the newest alerts.
type backlog struct {
	bounds Bounds
	// from is the first sequence from which it has every alert of the stream.
	from   uint64
	events []*Event
	bytes  int
}

func (b *backlog) add(e *Event) {
	if len(b.events) == cap(b.events) { // copy: readers may still read the old array
		b.events = append(make([]*Event, 0, 2*max(len(b.events), 64)), b.events...)
	}
	b.events = append(b.events, e)
	b.bytes += len(e.Frame)
	for len(b.events) > 1 && (len(b.events) > b.bounds.Events || b.bytes > b.bounds.Bytes) {
		oldest := b.events[0]
		b.bytes -= len(oldest.Frame)
		b.from, b.events = oldest.Seq+1, b.events[1:]
	}
}

// after returns the events after a sequence.
func after(events []*Event, seq uint64) []*Event {
	i, _ := slices.BinarySearchFunc(events, seq+1, func(e *Event, seq uint64) int {
		switch {
		case e.Seq < seq:
			return -1
		case e.Seq > seq:
			return 1
		}
		return 0
	})
	return events[i:]
}
