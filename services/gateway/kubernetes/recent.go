package kubernetes

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

const (
	// DuplicateWindow is how long a repetition of an event counts as a duplicate.
	DuplicateWindow = 5 * time.Second
	// maxRecent is the number of events that are remembered. Beyond it the oldest is
	// forgotten, and a duplicate of it would be delivered.
	maxRecent = 1024
)

// RecentEvents knows the events of the last DuplicateWindow: kubewatch and the bus may
// deliver one twice. The zero value is empty.
type RecentEvents struct {
	seen map[eventKey]time.Time
	// ring holds the keys of seen, the oldest at next once it is full.
	ring []eventKey
	next int
}

type eventKey struct{ cluster, namespace, name, uid, version string }

// Duplicate reports whether an event came less than DuplicateWindow ago, and remembers
// it otherwise. An event without a name and a uid is never a duplicate. now must not go
// back.
func (r *RecentEvents) Duplicate(m *kube.Message, now time.Time) bool {
	e := m.Event
	key := eventKey{m.Cluster, e.Namespace, e.Name, e.UID, e.ResourceVersion}
	if e.Name == "" && e.UID == "" {
		return false
	}
	before, known := r.seen[key]
	if known && now.Sub(before) < DuplicateWindow {
		return true
	}
	if r.seen == nil {
		r.seen = make(map[eventKey]time.Time)
	}
	r.seen[key] = now
	switch {
	case known: // its place in the ring stays
	case len(r.ring) < maxRecent:
		r.ring = append(r.ring, key)
	default:
		delete(r.seen, r.ring[r.next])
		r.ring[r.next] = key
		r.next = (r.next + 1) % maxRecent
	}
	return false
}
