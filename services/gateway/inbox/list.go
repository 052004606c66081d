package inbox

import (
	"iter"
	"slices"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// maxIDs is the number of alert ids an entry answers to: the first alert's, which
// revisions name, and the newest others. Beyond it the oldest of the others is
// forgotten, and a revision of that alert is ignored.
const maxIDs = 4

// List holds alerts in the order in which they first arrived: merged when one
// repeats, replaced when one is revised, and cut to one line when one is resolved.
// The zero value is empty. A List has no bound of its own; it is short, so every
// call scans all entries.
type List struct {
	// entries holds pointers so that deleting the first entry moves little.
	entries []*entry
}

// entry is one alert and the alerts merged into it.
type entry struct {
	alert alert.Alert
	// key caches the alert's MergeKey.
	key alert.MergeKey
	// ids are the ids of the merged alerts, the first alert's in front.
	ids []string
	// repeats are the newest ids of repetitions that were not merged. Resolutions
	// may name them, revisions may not.
	repeats []string
	// offers counts the alerts added or merged, without revisions.
	offers int
	// parts are those alerts, in the order of their stream sequences.
	parts []part
	// news is the revision with the end of the alert's investigation, if that came while the
	// alert was pending, or nil.
	news *alert.Alert
}

// set replaces the entry's alert.
func (e *entry) set(a alert.Alert) { e.alert, e.key = a, a.MergeKey() }

// addID makes the entry answer to an id.
func (e *entry) addID(id string) {
	if slices.Contains(e.ids, id) {
		return
	}
	if len(e.ids) == maxIDs {
		e.ids = slices.Delete(e.ids, 1, 2)
	}
	e.ids = append(e.ids, id)
}

// Len returns the number of entries; merged alerts count once.
func (l *List) Len() int { return len(l.entries) }

// Merge merges the alert into the unresolved one with the same MergeKey and reports
// whether there was one.
func (l *List) Merge(a alert.Alert) bool {
	e := l.findUnresolved(a.MergeKey())
	if e == nil {
		return false
	}
	e.alert = alert.Merge(e.alert, a)
	e.offers++
	e.addPart(a)
	e.addID(a.ID)
	return true
}

// findUnresolved returns the first unresolved entry with a key, or nil.
func (l *List) findUnresolved(key alert.MergeKey) *entry {
	i := slices.IndexFunc(l.entries, func(e *entry) bool { return e.key == key && !e.alert.Resolved && !e.alert.OnlyInvestigation })
	if i < 0 {
		return nil
	}
	return l.entries[i]
}

// RecordRepeat records the id of an alert that its owner does not merge, on the
// unresolved entry with the same MergeKey: a resolution of either resolves the entry.
// Resolutions and revisions are not recorded.
func (l *List) RecordRepeat(a alert.Alert) {
	if a.IsResolution() || a.Revises != "" {
		return
	}
	key := a.MergeKey()
	for _, e := range l.entries {
		if e.key == key && !e.alert.Resolved && !e.alert.OnlyInvestigation {
			e.repeats = append(e.repeats[max(len(e.repeats)+1-maxIDs, 0):], a.ID)
		}
	}
}

// Add appends the alert as an entry of its own.
func (l *List) Add(a alert.Alert) {
	e := &entry{ids: []string{a.ID}, offers: 1}
	e.set(a)
	e.addPart(a)
	l.entries = append(l.entries, e)
}

// Revise replaces the unresolved alert that a revises and reports whether there was
// one. The entry keeps its place, sequence, count and ids, so that later revisions of
// the same alert find it. If other alerts were merged with the revised one, the
// severity does not fall. The new alert gets the first alert's id and no Revises,
// because the reader never saw what it replaces, and keeps the investigation.
//
// A revision with an investigation changes only that, also of a resolved alert and of a
// line about an earlier end. news reports whether it is an end that has not arrived before.
func (l *List) Revise(a alert.Alert, news bool) bool {
	e := l.find(a.Revises)
	switch {
	case e == nil:
		return false
	case a.Investigation != nil:
		e.investigate(a, news)
		return true
	case e.alert.Resolved || e.alert.OnlyInvestigation:
		return false
	}
	e.revisePart(a)
	a = a.AsOriginal().KeepInvestigation(e.alert.Investigation)
	a.Count, a.Seq = e.alert.Count, e.alert.Seq
	if e.offers > 1 && e.alert.Severity.Rank() > a.Severity.Rank() {
		a.Severity = e.alert.Severity
	}
	e.set(a)
	return true
}

// Resolve cuts each alert that a resolves to one line and reports whether the first
// one that a names was there. Title, detail, URL, severity and count stay. The entry
// takes over a's sequence if a only resolves, because the line then delivers a too.
func (l *List) Resolve(a alert.Alert) bool {
	found := l.resolve(a.Resolves, a)
	for _, id := range a.AlsoResolves {
		l.resolve(id, a)
	}
	return found
}

// resolve marks the alert with an id as resolved by another one, if it is there.
func (l *List) resolve(id string, by alert.Alert) (found bool) {
	i := slices.IndexFunc(l.entries, func(e *entry) bool {
		return !e.alert.OnlyInvestigation && (slices.Contains(e.ids, id) || slices.Contains(e.repeats, id))
	})
	if i < 0 {
		return false
	}
	e := l.entries[i]
	if by.OnlyResolves() {
		e.alert.Seq = max(e.alert.Seq, by.Seq)
	}
	if !e.alert.Resolved {
		l.shorten(e, by)
	}
	return true
}

// shorten cuts an entry to one line, or merges it into the resolved line that its key
// already has: a flapping finding must not push out others. A regression that ends
// because it stays (a new level) is not called resolved.
func (l *List) shorten(e *entry, by alert.Alert) {
	a, prefix := e.alert, "Resolved: "
	if by.Context[alert.OutcomeKey] == alert.NewLevel {
		prefix = "New level: "
	}
	a.Title, a.Context, a.Resolved = prefix+a.Title, nil, true
	e.set(a)
	for _, line := range l.entries {
		if line != e && line.alert.Resolved && line.key == e.key {
			line.alert = alert.Merge(line.alert, e.alert)
			line.offers += e.offers
			for _, id := range e.ids {
				line.addID(id)
			}
			line.repeats = e.repeats
			if e.news != nil {
				line.news = e.news
			}
			l.entries = slices.DeleteFunc(l.entries, func(other *entry) bool { return other == e })
			return
		}
	}
}

// find returns the entry that answers to an id, or nil.
func (l *List) find(id string) *entry {
	i := slices.IndexFunc(l.entries, func(e *entry) bool { return slices.Contains(e.ids, id) })
	if i < 0 {
		return nil
	}
	return l.entries[i]
}

// DropLowest removes the alert of the lowest rank, if there is any. Of equals it
// removes the one that arrived first.
func (l *List) DropLowest(rank func(alert.Alert) int) {
	if len(l.entries) == 0 {
		return
	}
	least, lowest := 0, rank(l.entries[0].alert)
	for i, e := range l.entries[1:] {
		if r := rank(e.alert); r < lowest {
			least, lowest = i+1, r
		}
	}
	l.entries = slices.Delete(l.entries, least, least+1)
}

// DropBelow removes alerts of a severity rank below rank and returns their number of
// offers.
func (l *List) DropBelow(rank int) int {
	return l.DropWhere(func(a alert.Alert, _ int) bool { return a.Severity.Rank() < rank })
}

// DropWhere removes the alerts for which drop returns true and returns their number
// of offers. drop is called once for each alert, in order, with that alert's offers.
func (l *List) DropWhere(drop func(a alert.Alert, offers int) bool) int {
	before := l.Offers()
	l.entries = slices.DeleteFunc(l.entries, func(e *entry) bool { return drop(e.alert, e.offers) })
	return before - l.Offers()
}

// Find returns the alert that answers to an id.
func (l *List) Find(id string) (a alert.Alert, found bool) {
	if e := l.find(id); e != nil {
		return e.shown(), true
	}
	return alert.Alert{}, false
}

// ForgetPositions sets the stream sequence of each alert to 0, which is before every
// other.
func (l *List) ForgetPositions() {
	for _, e := range l.entries {
		e.alert.Seq = 0
		for i := range e.parts {
			e.parts[i].alert.Seq = 0
		}
		if e.news != nil {
			e.news.Seq = 0
		}
	}
}

// IsPending reports whether the alert with an id is in the list, not only a line about the
// end of its investigation.
func (l *List) IsPending(id string) bool {
	e := l.find(id)
	return e != nil && !e.alert.OnlyInvestigation
}

// DropInvestigationEnd removes the line about the end of an alert's investigation and
// returns its number of offers, 0 if there is none.
func (l *List) DropInvestigationEnd(id string) int {
	return l.DropWhere(func(a alert.Alert, _ int) bool { return a.OnlyInvestigation && a.ID == id })
}

// Offers returns how many alerts were added or merged to make those in the list.
func (l *List) Offers() int {
	n := 0
	for _, e := range l.entries {
		n += e.offers
	}
	return n
}

// Alerts returns a copy of the alerts in the order of first arrival. Their contexts
// are shared.
func (l *List) Alerts() []alert.Alert {
	alerts := make([]alert.Alert, len(l.entries))
	for i, e := range l.entries {
		alerts[i] = e.shown()
	}
	return alerts
}

// Pending returns the alerts as Alerts does, each with the time of its first part.
func (l *List) Pending() []alert.Pending {
	all := make([]alert.Pending, len(l.entries))
	for i, e := range l.entries {
		all[i] = e.pending()
	}
	return all
}

func (e *entry) pending() alert.Pending {
	return alert.Pending{Alert: e.shown(), Since: earliestTime(e.parts)}
}

// All iterates over the alerts in the order of first arrival, each with the ids by
// which a resolution may name it. It leaves out lines about ends of investigations, which
// are no findings. The ids must not be modified.
func (l *List) All() iter.Seq2[alert.Alert, []string] {
	return func(yield func(alert.Alert, []string) bool) {
		for _, e := range l.entries {
			if e.alert.OnlyInvestigation {
				continue
			}
			ids := e.ids
			if len(e.repeats) > 0 {
				ids = slices.Concat(ids, e.repeats)
			}
			if !yield(e.alert, ids) {
				return
			}
		}
	}
}

// Clear removes every alert.
func (l *List) Clear() { l.entries = nil }
