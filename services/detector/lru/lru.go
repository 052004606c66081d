// Package lru is a bounded map that evicts the least recently used entry.
//
// Rules use it for state by a key from outside, such as a page or a message template, so
// senders cannot make it grow. It has no clock: the same calls always evict the same keys,
// and a map that is filled in the order of All behaves like the original.
//
// A Map is not safe for concurrent use.
package lru

import "iter"

// Map holds at most as many entries as its capacity. Get, Add and Delete take
// constant time.
type Map[K comparable, V any] struct {
	capacity int
	index    map[K]*node[K, V]
	// ends.next is the most and ends.prev the least recently used node.
	ends node[K, V]
}

type node[K comparable, V any] struct {
	entry      Entry[K, V]
	prev, next *node[K, V]
}

// Entry is a key with its value.
type Entry[K comparable, V any] struct {
	Key   K
	Value V
}

// New returns an empty map for at most capacity entries. A capacity below one
// counts as one.
func New[K comparable, V any](capacity int) *Map[K, V] {
	m := &Map[K, V]{capacity: max(capacity, 1), index: make(map[K]*node[K, V])}
	m.ends.prev, m.ends.next = &m.ends, &m.ends
	return m
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int { return len(m.index) }

// Cap returns the largest number of entries.
func (m *Map[K, V]) Cap() int { return m.capacity }

// Get returns the value of key and marks it as used, or returns nil. The pointer is valid
// until the entry is evicted or deleted.
func (m *Map[K, V]) Get(key K) *V { return m.use(m.index[key]) }

// GetBytes is Get for a string key in a buffer. It allocates nothing.
func GetBytes[V any](m *Map[string, V], key []byte) *V { return m.use(m.index[string(key)]) }

// Peek returns the value of key without marking it as used, or nil.
func (m *Map[K, V]) Peek(key K) *V {
	if n := m.index[key]; n != nil {
		return &n.entry.Value
	}
	return nil
}

// Add sets key to value, marks it as used and returns a pointer to the stored value, which
// is valid until the entry is evicted or deleted. evicted is the entry that was evicted for
// it, if the map was full, or nil.
func (m *Map[K, V]) Add(key K, value V) (stored *V, evicted *Entry[K, V]) {
	if n := m.index[key]; n != nil {
		n.entry.Value = value
		return m.use(n), nil
	}
	if len(m.index) == m.capacity {
		evicted = m.remove(m.ends.prev)
	}
	n := &node[K, V]{entry: Entry[K, V]{Key: key, Value: value}}
	m.index[key] = n
	m.pushFront(n)
	return &n.entry.Value, evicted
}

// Delete removes key and reports whether it was there.
func (m *Map[K, V]) Delete(key K) bool {
	n := m.index[key]
	if n == nil {
		return false
	}
	m.remove(n)
	return true
}

// Oldest returns the least recently used entry without marking it as used, or
// nil when the map is empty.
func (m *Map[K, V]) Oldest() *Entry[K, V] {
	if len(m.index) == 0 {
		return nil
	}
	return &m.ends.prev.entry
}

// Backward is All from the most to the least recently used entry. The loop body must not
// delete entries.
func (m *Map[K, V]) Backward() iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		for n := m.ends.next; n != &m.ends && yield(n.entry.Key, &n.entry.Value); n = n.next {
		}
	}
}

// All iterates over the entries from the least to the most recently used and marks none as
// used. The loop body may change values and delete the current entry, but must not call Add
// or Get.
func (m *Map[K, V]) All() iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		for n := m.ends.prev; n != &m.ends; {
			before := n.prev
			if !yield(n.entry.Key, &n.entry.Value) {
				return
			}
			n = before
		}
	}
}

func (m *Map[K, V]) use(n *node[K, V]) *V {
	if n == nil {
		return nil
	}
	if m.ends.next != n {
		n.unlink()
		m.pushFront(n)
	}
	return &n.entry.Value
}

func (m *Map[K, V]) remove(n *node[K, V]) *Entry[K, V] {
	n.unlink()
	delete(m.index, n.entry.Key)
	return &n.entry
}

func (m *Map[K, V]) pushFront(n *node[K, V]) {
	n.prev, n.next = &m.ends, m.ends.next
	n.prev.next, n.next.prev = n, n
}

func (n *node[K, V]) unlink() {
	n.prev.next, n.next.prev = n.next, n.prev
}
