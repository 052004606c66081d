package fanout

import "slices"

// Bounds are how much is kept: for readers that come, or come back, and for those that
// are slower than the alerts come. Past either the oldest goes: who comes for it reads
// it from the bus, and who was too slow for it is told.
type Bounds struct {
	// Events is how many, DefaultEvents for 0; Bytes how large they are together,
	// DefaultBytes for 0. One is always kept.
	Events, Bytes int
}

// The usual bounds.
const (
	DefaultEvents = 4096
	DefaultBytes  = 16 << 20
)

type past struct {
	bounds Bounds
	// from is the sequence from which on every alert of the stream is in it.
	from   uint64
	events []*Event
	bytes  int
}

func (p *past) add(e *Event) {
	if len(p.events) == cap(p.events) { // a new piece of memory: others may read the old one
		p.events = append(make([]*Event, 0, 2*max(len(p.events), 64)), p.events...)
	}
	p.events = append(p.events, e)
	p.bytes += len(e.Frame)
	for len(p.events) > 1 && (len(p.events) > p.bounds.Events || p.bytes > p.bounds.Bytes) {
		oldest := p.events[0]
		p.bytes -= len(oldest.Frame)
		p.from, p.events = oldest.Seq+1, p.events[1:]
	}
}

// after are those of a list that come after a place.
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
