package fold

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// maxUntracked is how many apps that are not tracked are counted. Past it, the one with the
// oldest event is no longer counted.
const maxUntracked = 10_000

// untrackedApps are the apps that are not tracked and had an event within the last 24 h: the
// hashes of their names and the times of their newest events.
type untrackedApps struct{ seen *lru.Map[uint64, time.Time] }

func newUntrackedApps() untrackedApps { return untrackedApps{lru.New[uint64, time.Time](maxUntracked)} }

func hashOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

func (s *untrackedApps) add(name string, now time.Time) { s.seen.Add(hashOf(name), now) }

// remove removes an app that is tracked from now on.
func (s *untrackedApps) remove(name string) {
	if s.seen.Len() > 0 {
		s.seen.Delete(hashOf(name))
	}
}

// count returns how many apps there are, without those whose history is over.
func (s *untrackedApps) count(now time.Time) int {
	for oldest := s.seen.Oldest(); oldest != nil && now.Sub(oldest.Value) >= historyFor; oldest = s.seen.Oldest() {
		s.seen.Delete(oldest.Key)
	}
	return s.seen.Len()
}

func (s *untrackedApps) state(st *snapshot.State) {
	snapshot.Entries(st, 1, s.seen, func(st *snapshot.State, hash *uint64, at *time.Time) {
		st.Hash(1, hash)
		st.Time(2, at)
	}, func(hash uint64, at time.Time) { s.seen.Add(hash, at) })
}

// observeUntracked gives an event of an app that is not tracked to the rules that need no
// memory of the app. Their findings do not stay open, so nothing ends them.
func (t *turn) observeUntracked(a *app, e *telemetry.Event) {
	t.fold.count.untracked++
	if e.Network != nil {
		t.fold.template = template.AppendPage(t.fold.template[:0], e.Network.URL)
		if t.checkHidden(a, false, telemetry.KindNetwork, requestSighting(e)) {
			return
		}
	}
	event := t.ruleEvent(a, e)
	for i, entry := range table {
		if slices.Contains(entry.untracked, e.Kind) {
			t.publishFindings(a, i, entry.new(&rule.App{Name: a.name}).Observe(event, t.now))
		}
	}
}
