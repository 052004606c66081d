package kubernetes

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

const (
	// DuplicateWindow is how long an event is the same as before (specification,
	// section 10).
	DuplicateWindow = 5 * time.Second
	// maxRecent is how many events are remembered. Past it the oldest is forgotten,
	// and could come twice: kubewatch and the bus would have to tell it twice, too.
	maxRecent = 1024
)

// Recent knows which events came lately. The zero value knows none.
type Recent struct {
	at   map[recent]time.Time
	ring []recent
	next int
}

type recent struct{ cluster, namespace, name, uid, version string }

// Again says whether an event came less than DuplicateWindow ago, and remembers it
// otherwise. What has no name and no uid is never the same. Time does not go back.
func (r *Recent) Again(m *kube.Message, now time.Time) bool {
	e := m.Event
	key := recent{m.Cluster, e.Namespace, e.Name, e.UID, e.ResourceVersion}
	if e.Name == "" && e.UID == "" {
		return false
	}
	before, known := r.at[key]
	if known && now.Sub(before) < DuplicateWindow {
		return true
	}
	if r.at == nil {
		r.at = make(map[recent]time.Time)
	}
	r.at[key] = now
	switch {
	case known: // its place stays
	case len(r.ring) < maxRecent:
		r.ring = append(r.ring, key)
	default:
		delete(r.at, r.ring[r.next])
		r.ring[r.next] = key
		r.next = (r.next + 1) % maxRecent
	}
	return false
}
