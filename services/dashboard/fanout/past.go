package fanout

import "slices"

// Bounds of what is kept: for readers that come, or come back, and for those that are
// slower than the alerts come. Past either the oldest goes: who comes for it reads it
// from the bus, and who was too slow for it is told.
const (
	keptEvents = 4096
	keptBytes  = 16 << 20
)

// past are the newest alerts. What it hands out stays as it is.
type past struct {
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
	for len(p.events) > keptEvents || p.bytes > keptBytes && len(p.events) > 1 {
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
