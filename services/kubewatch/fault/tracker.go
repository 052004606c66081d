package fault

import (
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// Tracker tracks the faults of one cluster. It is not safe for concurrent use.
type Tracker struct {
	cluster, uid string
	mask         *redact.Engine
	// objects are the tracked objects by id, ids their ids by kind, namespace and name.
	objects map[string]*object
	ids     map[objectName]string
	open    int
	// ends are the lasting faults that end at a known time.
	ends timeQueue[*lasting]
	// limits are the rate limits by kind; see joinKind.
	limits map[string]*rateLimit
	// openGroups are the groups of lasting faults, recentGroups those of momentary ones,
	// both by key. updates are the groups with a pending update of
	// their alert.
	openGroups   map[string]*group
	recentGroups *simplelru.LRU[string, *group]
	updates      timeQueue[*group]
	// published is the set of the ids of published faults; latest is the newest fault of each
	// key.
	published *simplelru.LRU[string, struct{}]
	latest    *simplelru.LRU[string, latestFault]
	// warnings are the times of the newest warnings, by the fields that Window names.
	// logsRead is when a pod's logs were last wanted for a warning, and oomKills are the
	// newest out-of-memory kills, both by pod id.
	warnings *simplelru.LRU[string, time.Time]
	logsRead *simplelru.LRU[string, time.Time]
	oomKills *simplelru.LRU[string, oomKill]
	// recalledSince is since when the predecessor's faults were recalled, watchedUntil
	// when it was last alive. Both are zero without a predecessor.
	recalledSince, watchedUntil time.Time
	stats                       Stats
}

// latestFault is the newest fault of a key.
type latestFault struct {
	id string
	// number counts the lasting faults of the key.
	number int
	over   bool
	at     time.Time
}

// oomKill is a process of a pod that was killed for its memory.
type oomKill struct {
	at time.Time
	// unconfirmed is set if an event reported it and no state has yet.
	unconfirmed bool
}

// New returns an empty tracker for a cluster. The uid may be empty.
func New(cluster, uid string) *Tracker {
	t := &Tracker{
		cluster: cluster, uid: uid, mask: redact.New(), objects: map[string]*object{}, ids: map[objectName]string{},
		limits: map[string]*rateLimit{}, openGroups: map[string]*group{},
	}
	// NewLRU fails only for sizes below 1.
	t.published, _ = simplelru.NewLRU[string, struct{}](MaxRemembered, nil)
	t.latest, _ = simplelru.NewLRU[string, latestFault](MaxRemembered, nil)
	t.warnings, _ = simplelru.NewLRU[string, time.Time](MaxRemembered, nil)
	t.logsRead, _ = simplelru.NewLRU[string, time.Time](MaxRemembered, nil)
	t.recentGroups, _ = simplelru.NewLRU(MaxGroups, func(_ string, g *group) { t.cancelUpdate(g) })
	t.oomKills, _ = simplelru.NewLRU[string, oomKill](MaxRemembered, nil)
	return t
}

// Stats returns the present counts.
func (t *Tracker) Stats() Stats {
	s := t.stats
	s.Objects, s.Open, s.Groups = len(t.objects), t.open, len(t.openGroups)
	for _, l := range t.limits {
		s.Waiting += l.waiting.Len()
	}
	return s
}

// Next returns when Tick has something to do, or zero.
func (t *Tracker) Next() time.Time {
	var next time.Time
	earlier := func(due time.Time) {
		if next.IsZero() || !due.IsZero() && due.Before(next) {
			next = due
		}
	}
	earlier(t.ends.next())
	earlier(t.updates.next())
	for _, l := range t.limits {
		if l.waiting.Len() > 0 {
			earlier(l.next)
		}
	}
	return next
}

// Tick returns what is due: ends of faults, faults that waited for the rate limit, and
// updates of alerts.
func (t *Tracker) Tick(now time.Time) []Finding {
	var out []Finding
	for l, ok := t.ends.due(now); ok; l, ok = t.ends.due(now) {
		out = t.endFault(out, l, l.endReason, now)
	}
	for _, kind := range kube.Faults() {
		for _, l := range []*rateLimit{t.limit(kind), t.limit(joinKind(kind))} {
			for l.waiting.Len() > 0 && l.allow(now) {
				out = append(out, t.publishBegin(l.waiting.Front().Value.(*lasting), now))
			}
		}
	}
	for g, ok := t.updates.due(now); ok; g, ok = t.updates.due(now) {
		out = append(out, t.updateFinding(g, now))
	}
	return out
}

// Gone ends the lasting faults of an object that was deleted.
func (t *Tracker) Gone(ref kube.Object, now time.Time) []Finding {
	if o := t.find(ref); o != nil {
		return t.remove(nil, o, now)
	}
	return nil
}

func (t *Tracker) remove(out []Finding, o *object, now time.Time) []Finding {
	for len(o.open) > 0 {
		out = t.endFault(out, o.open[0], "the object was deleted", now)
	}
	t.forget(o)
	return out
}

// Synced records that the first list of a kind is complete. It ends the recalled faults of
// objects that are not in it.
func (t *Tracker) Synced(kind string, now time.Time) []Finding {
	var absent []*object
	for _, o := range t.objects {
		if o.kind == kind && !o.seen {
			absent = append(absent, o)
		}
	}
	slices.SortFunc(absent, func(x, y *object) int { return strings.Compare(x.id, y.id) })
	var out []Finding
	for _, o := range absent {
		out = t.remove(out, o, now)
	}
	return out
}

// happenedBeforeWatch reports whether something in a first list happened before the watch began.
func (t *Tracker) happenedBeforeWatch(initial bool, at time.Time) bool {
	return initial && (t.watchedUntil.IsZero() || at.Before(t.watchedUntil.Add(-clockSkew)))
}
