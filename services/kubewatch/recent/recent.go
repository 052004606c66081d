// Package recent remembers for a short while what was seen, so that nothing is told
// twice in it. It is bounded: at the bound, the oldest is forgotten.
//
// It is pure: the time is an argument, and it doesn't know what the keys mean.
package recent

import "time"

// Seen remembers keys. It is not safe for concurrent use.
type Seen[K comparable] struct {
	window time.Duration
	last   map[K]time.Time
	// order is a ring of keys, the oldest at next.
	order []K
	next  int
}

// New remembers at most limit keys, each for window.
func New[K comparable](window time.Duration, limit int) *Seen[K] {
	return &Seen[K]{window: window, last: make(map[K]time.Time), order: make([]K, 0, limit)}
}

// Again says whether a key was seen within the window before now, and remembers a
// new one from now on. One that is seen again is not remembered for longer.
func (s *Seen[K]) Again(key K, now time.Time) bool {
	if at, known := s.last[key]; known {
		if now.Sub(at) < s.window {
			return true
		}
		s.last[key] = now // in its old place: it may be forgotten early, when there are many
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
