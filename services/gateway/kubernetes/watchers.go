package kubernetes

import (
	"maps"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Watchers is what is known of who watches which cluster. The zero value knows of
// nobody. What is not renewed for ttl is gone, but its name stays known.
type Watchers struct {
	records map[string]record
}

type record struct {
	watch kube.Watch
	seen  time.Time
}

// maxClusters is how many clusters are remembered. Past it a new one is not.
const maxClusters = 1000

// Learn takes what a kubewatch says of itself, and says whether that is news: the
// cluster was not watched before, or how its watch is has changed.
func (w *Watchers) Learn(l kube.Leader, now time.Time, ttl time.Duration) (news bool) {
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

// Leave says that a kubewatch has given a cluster up.
func (w *Watchers) Leave(cluster string) {
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

// Of is how the watch of a cluster is, and until when that is believed. Where live is
// false nobody watches it.
func (w *Watchers) Of(cluster string, now time.Time, ttl time.Duration) (watch kube.Watch, live bool, until time.Time) {
	r, known := w.records[cluster]
	if !known {
		return kube.Watch{}, false, time.Time{}
	}
	return r.watch, r.live(now, ttl), r.seen.Add(ttl)
}
