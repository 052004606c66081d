package eventring

import (
	"container/heap"
	"iter"

	"github.com/tocsin-bus/tocsin/shared/query"
)

// item is a stored event with its number in the order of arrival.
type item struct {
	event  query.StoredEvent
	serial uint64
	size   int
}

// ring is a queue of items in a slice whose size doubles when it is full.
type ring struct {
	items []item // its length is zero or a power of two
	first int    // index of the oldest item
	n     int    // number of items
}

// minRing is the initial capacity, in items.
const minRing = 4

func (r *ring) len() int { return r.n }

// at returns the i-th item from the oldest.
func (r *ring) at(i int) *item { return &r.items[(r.first+i)&(len(r.items)-1)] }

func (r *ring) push(it item) {
	if r.n == len(r.items) {
		items := make([]item, max(2*len(r.items), minRing))
		for i := range r.n {
			items[i] = *r.at(i)
		}
		r.items, r.first = items, 0
	}
	r.n++
	*r.at(r.n - 1) = it
}

// pop removes the oldest item.
func (r *ring) pop() item {
	it := *r.at(0)
	*r.at(0) = item{} // let the garbage collector free the event
	r.first = (r.first + 1) & (len(r.items) - 1)
	r.n--
	return it
}

func (r *ring) size() int {
	n := 0
	for i := range r.n {
		n += r.at(i).size
	}
	return n
}

// newest iterates over the items that match a query, the newest first.
func (s *Store) newest(r *query.EventsRequest) iter.Seq[*item] {
	return func(yield func(*item) bool) {
		var open cursors
		for from, ring := range s.rings.All() {
			if !from.matches(r) {
				continue
			}
			if c := (cursor{*ring, (*ring).len()}); c.next(r) {
				open = append(open, c)
			}
		}
		heap.Init(&open)
		for len(open) > 0 {
			if !yield(open[0].item()) {
				return
			}
			if open[0].next(r) {
				heap.Fix(&open, 0)
			} else {
				heap.Pop(&open)
			}
		}
	}
}

// cursor is a position in a ring that is read backwards.
type cursor struct {
	ring *ring
	i    int
}

func (c cursor) item() *item { return c.ring.at(c.i) }

// next moves to the next item that matches a query, and reports whether there is one.
func (c *cursor) next(r *query.EventsRequest) bool {
	for c.i--; c.i >= 0; c.i-- {
		e := &c.item().event
		if e.Received.Before(r.Since) {
			return false
		}
		if !r.Until.IsZero() && e.Received.After(r.Until) {
			continue
		}
		if r.Before != (query.EventPosition{}) && e.Position.Compare(r.Before) >= 0 {
			continue
		}
		if r.MinRank <= rank(&e.Event) && aboutURL(&e.Event, r.URL) {
			return true
		}
	}
	return false
}

// cursors is a heap with the newest item on top.
type cursors []cursor

func (c cursors) Len() int           { return len(c) }
func (c cursors) Less(i, j int) bool { return c[i].item().serial > c[j].item().serial }
func (c cursors) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *cursors) Push(x any)        { *c = append(*c, x.(cursor)) }

func (c *cursors) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
