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

// maxUntracked is how many untracked apps are counted. Past it, the one with the oldest event
// is no longer counted.
const maxUntracked = 10_000

// untrackedApps are the apps that are not tracked and had an event within the last 24 h.
type untrackedApps struct {
	// newest has the times of their newest events by the hashes of their names.
	newest *lru.Map[uint64, time.Time]
}

func newUntrackedApps() untrackedApps { return untrackedApps{lru.New[uint64, time.Time](maxUntracked)} }

func hashName(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

func (s *untrackedApps) add(name string, now time.Time) { s.newest.Add(hashName(name), now) }

// remove removes an app, which is tracked from now on.
func (s *untrackedApps) remove(name string) {
	if s.newest.Len() > 0 {
		s.newest.Delete(hashName(name))
	}
}

// count returns how many apps there are, and forgets those without events for 24 h.
func (s *untrackedApps) count(now time.Time) int {
	for oldest := s.newest.Oldest(); oldest != nil && now.Sub(oldest.Value) >= historyPeriod; oldest = s.newest.Oldest() {
		s.newest.Delete(oldest.Key)
	}
	return s.newest.Len()
}

func (s *untrackedApps) state(st *snapshot.Codec) {
	snapshot.Entries(st, 1, s.newest, func(st *snapshot.Codec, hash *uint64, at *time.Time) {
		st.Hash(1, hash)
		st.Time(2, at)
	}, func(hash uint64, at time.Time) { s.newest.Add(hash, at) })
}

// observeUntracked gives an event of an app that is not tracked to the rules that need no
// other event of the app. Nothing resolves their findings.
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
			t.publishFindings(a, i, t.fold.untrackedRule(i).Observe(event, t.now))
		}
	}
}

// untrackedRule returns the rule of a table entry for an app that is not tracked: a new one
// or, if the rule is stateless, the one that serves all these apps.
func (f *Fold) untrackedRule(index int) rule.Rule {
	if r := f.stateless[index]; r != nil {
		return r
	}
	r := table[index].new(&rule.App{})
	if s, ok := r.(interface{ IsStateless() bool }); ok && s.IsStateless() {
		f.stateless[index] = r
	}
	return r
}
