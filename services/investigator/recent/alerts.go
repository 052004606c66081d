// Package recent remembers what the bus carried recently: alerts, messages of clusters and CI
// results, each in bounded memory. So a question about them is answered at once.
//
// It is pure: it knows no bus and no clock. Its values are not safe for concurrent use, and what
// they return is shared and must not be changed.
package recent

import (
	"cmp"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Bounds of [Alerts]. Beyond them the oldest alerts are forgotten.
const (
	MaxAlerts = 5000
	// MaxAlertBytes bounds the alerts as they are stored on the bus.
	MaxAlertBytes = 16 << 20
)

// Alert is an alert with what happened to it since.
type Alert struct {
	// Alert is the newest revision, under the first id.
	alert.Alert
	// First is the timestamp of the oldest publication that is known.
	First time.Time
	// ResolvedBy is the id of the alert that resolved it, or empty.
	ResolvedBy string
	// Repeated means that a later alert has the same key: that one stands for both.
	Repeated bool

	size int
}

// Open reports whether the alert is neither resolved nor repeated, and no resolution itself.
func (a *Alert) Open() bool { return a.ResolvedBy == "" && !a.Repeated && !a.IsResolution() }

// Alerts remembers alerts. The zero value is empty.
type Alerts struct {
	order []*Alert // by their first publication
	byID  map[string]*Alert
	// newest is the newest alert of each key that is no resolution.
	newest  map[alert.MergeKey]*Alert
	bytes   int
	dropped bool
}

// Add adds the next alert of the stream, of a size in bytes.
func (l *Alerts) Add(a alert.Alert, size int) {
	if l.byID == nil {
		l.byID, l.newest = map[string]*Alert{}, map[alert.MergeKey]*Alert{}
	}
	if a.Revises != "" {
		if old := l.byID[a.Revises]; old != nil {
			old.Alert = a.AsOriginal().KeepInvestigation(old.Investigation)
			l.bytes += size - old.size
			old.size = size
			l.evict()
			return
		}
		a = a.AsOriginal()
	}
	if l.byID[a.ID] != nil { // published twice
		return
	}
	entry := &Alert{Alert: a, First: a.Timestamp, size: size}
	l.order, l.byID[a.ID] = append(l.order, entry), entry
	l.bytes += size
	key := a.MergeKey()
	key.Resolution = false
	switch before := l.newest[key]; {
	case a.IsResolution():
		l.resolve(before, a.ID)
		l.resolve(l.byID[a.Resolves], a.ID)
		for _, id := range a.AlsoResolves {
			l.resolve(l.byID[id], a.ID)
		}
	case key.DedupKey != "":
		if before != nil {
			before.Repeated = true
		}
		l.newest[key] = entry
	}
	l.evict()
}

func (l *Alerts) resolve(a *Alert, by string) {
	if a != nil && a.ResolvedBy == "" {
		a.ResolvedBy = by
	}
}

func (l *Alerts) evict() {
	n := 0
	for len(l.order)-n > 1 && (len(l.order)-n > MaxAlerts || l.bytes > MaxAlertBytes) {
		old := l.order[n]
		l.bytes -= old.size
		delete(l.byID, old.ID)
		if l.newest[old.MergeKey()] == old {
			delete(l.newest, old.MergeKey())
		}
		n++
	}
	if n > 0 {
		l.dropped = true
		l.order = slices.Delete(l.order, 0, n)
	}
}

// Dropped reports whether alerts were forgotten for a bound.
func (l *Alerts) Dropped() bool { return l.dropped }

// ByID returns the alert with a first id, and whether it is remembered.
func (l *Alerts) ByID(id string) (Alert, bool) {
	a := l.byID[id]
	if a == nil {
		return Alert{}, false
	}
	return *a, true
}

// AlertQuery selects alerts. An empty field matches all.
type AlertQuery struct {
	App      string
	Category alert.Category
	MinRank  int
	// Since leaves out alerts whose newest publication is older.
	Since time.Time
	// Open selects open alerts alone.
	Open bool
	// Except is the first id of an alert that is left out.
	Except string
}

func (q AlertQuery) matches(a *Alert) bool {
	return (q.App == "" || a.App == q.App) && (q.Category == "" || a.Category == q.Category) && a.Severity.Rank() >= q.MinRank &&
		!a.Timestamp.Before(q.Since) && (!q.Open || a.Open()) && (q.Except == "" || a.ID != q.Except)
}

// Find returns the alerts of a query, the one with the newest publication first, at most limit, and how many
// more there are.
func (l *Alerts) Find(q AlertQuery, limit int) (found []Alert, more int) {
	for _, a := range l.order {
		if q.matches(a) {
			found = append(found, *a)
		}
	}
	slices.SortStableFunc(found, func(a, b Alert) int { return b.Timestamp.Compare(a.Timestamp) })
	more = max(0, len(found)-limit)
	return found[:len(found)-more], more
}

// Worst returns the alerts of a query as Find does, the most severe first.
func (l *Alerts) Worst(q AlertQuery, limit int) (found []Alert, more int) {
	found, _ = l.Find(q, len(l.order))
	slices.SortStableFunc(found, func(a, b Alert) int { return cmp.Compare(b.Severity.Rank(), a.Severity.Rank()) })
	more = max(0, len(found)-limit)
	return found[:len(found)-more], more
}

// Group is an alert's incident group, as [alert.Causes] makes it.
type Group struct {
	// Cause is the group's likely cause, which may be the alert itself. It is nil where the
	// alert belongs to no group.
	Cause *alert.Alert
	// Symptoms are the alerts that are grouped under it.
	Symptoms []alert.Alert
}

// GroupOf returns the group of an alert, which need not be remembered.
func (l *Alerts) GroupOf(a alert.Alert) Group {
	a = a.AsOriginal()
	since := a.Timestamp
	if known := l.byID[a.ID]; known != nil {
		a, since = known.Alert, known.First
	}
	// An alert is at most one window away from its cause, and so is each other symptom.
	const reach = 2 * alert.CauseWindow
	pending := []alert.Pending{{Alert: a, Since: since}}
	for _, other := range l.order {
		if d := other.First.Sub(since); other.ID != a.ID && d.Abs() <= reach {
			pending = append(pending, alert.Pending{Alert: other.Alert, Since: other.First})
		}
	}
	grouped := alert.Alerts(new(alert.Causes).Group(pending))
	cause := a.ID
	for _, g := range grouped {
		if g.ID == a.ID && g.InhibitedBy != "" {
			cause = g.InhibitedBy
		}
	}
	var group Group
	for _, g := range grouped {
		switch {
		case g.ID == cause && g.Symptoms > 0:
			group.Cause = &g
		case g.InhibitedBy == cause:
			group.Symptoms = append(group.Symptoms, g)
		}
	}
	return group
}

// Releases returns the alerts that name a release which was seen for the first time, of an app or,
// where app is empty, of all, one for each release, the newest first, at most limit.
func (l *Alerts) Releases(app string, since time.Time, limit int) []Alert {
	type release struct{ app, name string }
	seen := map[release]bool{}
	var found []Alert
	for _, a := range slices.Backward(l.order) {
		name, _ := a.Context[alert.DeployKey].(string)
		r := release{a.App, name}
		if name == "" || app != "" && a.App != app || a.First.Before(since) || seen[r] {
			continue
		}
		if seen[r] = true; len(found) < limit {
			found = append(found, *a)
		}
	}
	return found
}
