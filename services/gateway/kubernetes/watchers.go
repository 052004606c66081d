package kubernetes

import (
	"maps"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Watchers knows which clusters kubewatch watches, and how each watch is. A cluster
// that is not renewed for the ttl is no longer watched, but its name stays known. The
// zero value is empty.
type Watchers struct {
	records map[string]record
}

type record struct {
	watch kube.Watch
	seen  time.Time
}

// maxClusters is the number of clusters that are remembered. Beyond it new ones are
// ignored.
const maxClusters = 1000

// Update records the announcement of a kubewatch and reports whether it is news: the
// cluster was not watched before, or its watch degraded or was restored.
func (w *Watchers) Update(l kube.Leader, now time.Time, ttl time.Duration) (news bool) {
	before, known := w.records[l.Cluster]
	if l.Cluster == "" || !known && len(w.records) >= maxClusters {
		return false
	}
	if w.records == nil {
		w.records = map[string]record{}
	}
	w.records[l.Cluster] = record{l.Watch, now}
	return !known || !before.live(now, ttl) || before.watch.Degraded != l.Watch.Degraded
}

// Remove records that a kubewatch released a cluster.
func (w *Watchers) Remove(cluster string) {
	if r, known := w.records[cluster]; known {
		r.seen = time.Time{}
		w.records[cluster] = r
	}
}

func (r record) live(now time.Time, ttl time.Duration) bool { return now.Sub(r.seen) < ttl }

// Live lists the clusters that are watched, by name.
func (w *Watchers) Live(now time.Time, ttl time.Duration) []string {
	live := []string{}
	for name, r := range w.records {
		if r.live(now, ttl) {
			live = append(live, name)
		}
	}
	slices.Sort(live)
	return live
}

// Known lists all clusters that are or were watched, by name.
func (w *Watchers) Known() []string { return slices.Sorted(maps.Keys(w.records)) }

// Status returns how a cluster's watch is, and until when that is valid. live is false
// if no kubewatch watches the cluster.
func (w *Watchers) Status(cluster string, now time.Time, ttl time.Duration) (watch kube.Watch, live bool, until time.Time) {
	r, known := w.records[cluster]
	if !known {
		return kube.Watch{}, false, time.Time{}
	}
	return r.watch, r.live(now, ttl), r.seen.Add(ttl)
}
