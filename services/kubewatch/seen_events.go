package kubewatch

import "time"

// seenEvents remembers keys for a short time, so that an event is published once. At its
// limit it forgets the oldest key. It is pure and not safe for concurrent use.
type seenEvents[K comparable] struct {
	window time.Duration
	last   map[K]time.Time
	// order is a ring of keys, the oldest at next.
	order []K
	next  int
}

// newSeenEvents returns a memory of at most limit keys, each for window.
func newSeenEvents[K comparable](window time.Duration, limit int) *seenEvents[K] {
	return &seenEvents[K]{window: window, last: make(map[K]time.Time), order: make([]K, 0, limit)}
}

// checkAndAdd reports whether a key was seen within the window before now, and adds it if
// not. A key that is seen again is not remembered for longer.
func (s *seenEvents[K]) checkAndAdd(key K, now time.Time) bool {
	if at, known := s.last[key]; known {
		if now.Sub(at) < s.window {
			return true
		}
		s.last[key] = now // it keeps its position in the ring and may be forgotten early
		return false
	}
	if len(s.order) < cap(s.order) {
		s.order = append(s.order, key)
	} else {
		delete(s.last, s.order[s.next])
		s.order[s.next] = key
		s.next = (s.next + 1) % len(s.order)
	}
	s.last[key] = now
	return false
}
