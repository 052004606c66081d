package inbox

import (
	"iter"
	"slices"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// maxIDs is how many ids of alerts an entry answers to: the first one's, which
// revisions name, and the newest others. Past it the oldest of the others is
// forgotten, and a revision of that alert is ignored.
const maxIDs = 4

// List holds alerts in the order in which they first arrived. Its zero value is
// empty. Its lists are short, so every call looks at every entry.
type List struct {
	// entries are pointers so that forgetting the first one moves little.
	entries []*entry
}

// entry is one alert and what it stands for.
type entry struct {
	alert alert.Alert
	// key is the alert's MergeKey, which every offer compares.
	key alert.MergeKey
	// ids are those of the alerts merged into this one, the first one in front.
	ids []string
	// repeats are the newest ids of alerts that were not merged: only an end names
	// them.
	repeats []string
	// offers is how many alerts were added or merged, revisions left out.
	offers int
	// parts are those, in the order of their places in the stream.
	parts []part
}

// become puts an alert in the place of the entry's.
func (e *entry) become(a alert.Alert) { e.alert, e.key = a, a.MergeKey() }

// answer has the entry answer to an id.
func (e *entry) answer(id string) {
	if slices.Contains(e.ids, id) {
		return
	}
	if len(e.ids) == maxIDs {
		e.ids = slices.Delete(e.ids, 1, 2)
	}
	e.ids = append(e.ids, id)
}

// Len is the number of alerts, merged ones counted once.
func (l *List) Len() int { return len(l.entries) }

// Merge merges the alert into the one with its MergeKey that is not over, and
// says whether there was one.
func (l *List) Merge(a alert.Alert) bool {
	key := a.MergeKey()
	i := slices.IndexFunc(l.entries, func(e *entry) bool { return e.key == key && !e.alert.Resolved })
	if i < 0 {
		return false
	}
	e := l.entries[i]
	e.alert = alert.Merge(e.alert, a)
	e.offers++
	e.join(a)
	e.answer(a.ID)
	return true
}

// Repeat notes an alert that its owner has reasons not to merge, on the one with its
// MergeKey that is not over: it is over by the same end. An end or a revision is
// nothing of which there could be one.
func (l *List) Repeat(a alert.Alert) {
	if a.Over() || a.Revises != "" {
		return
	}
	key := a.MergeKey()
	for _, e := range l.entries {
		if e.key == key && !e.alert.Resolved {
			e.repeats = append(e.repeats[max(len(e.repeats)+1-maxIDs, 0):], a.ID)
		}
	}
}

// Add puts the alert at the end.
func (l *List) Add(a alert.Alert) {
	e := &entry{ids: []string{a.ID}, offers: 1}
	e.become(a)
	e.join(a)
	l.entries = append(l.entries, e)
}

// Revise puts the alert in the place of the one that it revises and says
// whether that was there. The place, also that in the stream, the count and the
// ids that the entry answers to stay: later revisions that name the same first
// alert find it, and who was told of it has been told of its revisions.
// Where others were merged with the one it revises, the severity doesn't fall.
// The reader never saw what was replaced, so the alert has the id of the first one,
// which is that of the whole, and Revises does not stay. What is over is not revised
// any more.
func (l *List) Revise(a alert.Alert) bool {
	e := l.find(a.Revises)
	if e == nil || e.alert.Resolved {
		return false
	}
	e.revise(a)
	a = a.Whole()
	a.Count, a.Seq = e.alert.Count, e.alert.Seq
	if e.offers > 1 && e.alert.Severity.Rank() > a.Severity.Rank() {
		a.Severity = e.alert.Severity
	}
	e.become(a)
	return true
}

// Resolve makes one line of each alert that this one says is over, and reports
// whether the one that it names first was there. Title, detail, URL, severity and
// count stay. Its place in the stream becomes that of this one where this tells
// nothing else, as it is told by that line.
func (l *List) Resolve(a alert.Alert) bool {
	found := l.end(a.Resolves, a)
	for _, id := range a.AlsoResolves {
		l.end(id, a)
	}
	return found
}

// end makes one line of the alert with an id, if it is there, by one that says that
// it is over.
func (l *List) end(id string, by alert.Alert) (found bool) {
	i := slices.IndexFunc(l.entries, func(e *entry) bool {
		return slices.Contains(e.ids, id) || slices.Contains(e.repeats, id)
	})
	if i < 0 {
		return false
	}
	e := l.entries[i]
	if by.OnlyResolves() {
		e.alert.Seq = max(e.alert.Seq, by.Seq)
	}
	if !e.alert.Resolved {
		l.close(e, by)
	}
	return true
}

// close makes an entry one line, or more of the line that its key has already:
// what comes and goes pushes nothing else out. Of what is over because it is there to
// stay the line doesn't say that all is well: some readers are told nothing else.
func (l *List) close(e *entry, by alert.Alert) {
	a, how := e.alert, "Resolved: "
	if by.Context[alert.OutcomeKey] == alert.NewLevel {
		how = "New level: "
	}
	a.Title, a.Context, a.Resolved = how+a.Title, nil, true
	e.become(a)
	for _, line := range l.entries {
		if line != e && line.alert.Resolved && line.key == e.key {
			line.alert = alert.Merge(line.alert, e.alert)
			line.offers += e.offers
			for _, id := range e.ids {
				line.answer(id)
			}
			line.repeats = e.repeats
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

// DropLeast forgets the alert of the lowest rank, of equals the one that arrived
// first, if there is any.
func (l *List) DropLeast(rank func(alert.Alert) int) {
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

// DropBelow forgets alerts of a severity rank below rank and returns how many
// were added or merged to make them.
func (l *List) DropBelow(rank int) int {
	return l.DropWhere(func(a alert.Alert, _ int) bool { return a.Severity.Rank() < rank })
}

// DropWhere forgets the alerts that drop says yes to, and returns how many were
// added or merged to make them; drop hears that of each. It is asked once for
// each alert, in order.
func (l *List) DropWhere(drop func(a alert.Alert, offers int) bool) int {
	before := l.Offers()
	l.entries = slices.DeleteFunc(l.entries, func(e *entry) bool { return drop(e.alert, e.offers) })
	return before - l.Offers()
}

// Find is the alert that answers to an id, as it is now.
func (l *List) Find(id string) (a alert.Alert, found bool) {
	if e := l.find(id); e != nil {
		return e.alert, true
	}
	return alert.Alert{}, false
}

// Unplace makes the place in the stream of each alert unknown, which is before
// every other.
func (l *List) Unplace() {
	for _, e := range l.entries {
		e.alert.Seq = 0
		for i := range e.parts {
			e.parts[i].alert.Seq = 0
		}
	}
}

// Offers is how many alerts were added or merged to make those in the list.
func (l *List) Offers() int {
	n := 0
	for _, e := range l.entries {
		n += e.offers
	}
	return n
}

// Alerts returns a copy of the alerts in the order of first arrival. What their
// contexts hold is shared.
func (l *List) Alerts() []alert.Alert {
	alerts := make([]alert.Alert, len(l.entries))
	for i, e := range l.entries {
		alerts[i] = e.alert
	}
	return alerts
}

// Pending returns the alerts as Alerts does, each with when it began.
func (l *List) Pending() []alert.Pending {
	all := make([]alert.Pending, len(l.entries))
	for i, e := range l.entries {
		all[i] = e.pending()
	}
	return all
}

func (e *entry) pending() alert.Pending { return alert.Pending{Alert: e.alert, Since: begun(e.parts)} }

// All walks the alerts in the order of first arrival, each with the ids by which an
// end may name it, which must stay as they are.
func (l *List) All() iter.Seq2[alert.Alert, []string] {
	return func(yield func(alert.Alert, []string) bool) {
		for _, e := range l.entries {
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

// Clear forgets every alert.
func (l *List) Clear() { l.entries = nil }
