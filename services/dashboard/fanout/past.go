package fanout

// Bounds of what is kept for readers that come, or come back. Past either the
// oldest goes, and is read from the bus where it is wanted.
const (
	keptEvents = 1024
	keptBytes  = 8 << 20
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

// after are those that come after a place, and whether none is missing there.
func (p *past) after(seq uint64) (events []*Event, whole bool) {
	i := len(p.events)
	for i > 0 && p.events[i-1].Seq > seq {
		i--
	}
	return p.events[i:len(p.events):len(p.events)], seq+1 >= p.from
}
