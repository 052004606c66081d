package inbox

import (
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// maxParts is the number of parts an entry keeps. Beyond it the two oldest are merged
// at the sequence of the newer: a reader whose position lies between them delivers
// the older one a second time; otherwise no reader would deliver it.
const maxParts = 16

// part is one of the alerts that were merged into an entry, in its newest revision.
type part struct {
	alert alert.Alert
	// id is the id under which it came, which revisions name.
	id string
	// since is the time and offers the number of the alerts in this part: one, except
	// for the oldest part.
	since  time.Time
	offers int
}

// addPart adds a part to the entry.
func (e *entry) addPart(a alert.Alert) {
	e.parts = append(e.parts, part{a, a.ID, a.Timestamp, 1})
	if len(e.parts) > maxParts {
		first, second := e.parts[0], e.parts[1]
		e.parts[1] = part{alert.Merge(first.alert, second.alert), first.id, earlier(first.since, second.since), first.offers + second.offers}
		e.parts = slices.Delete(e.parts, 0, 1)
	}
}

// partOf returns the part of the alert with an id.
func (e *entry) partOf(id string) *part {
	i := slices.IndexFunc(e.parts, func(p part) bool { return p.id == id })
	return &e.parts[max(i, 0)] // an unknown id was merged into the oldest part
}

// revisePart replaces the part that a revises.
func (e *entry) revisePart(a alert.Alert) {
	p := e.partOf(a.Revises)
	a = a.AsOriginal().KeepInvestigation(p.alert.Investigation)
	a.Count, a.Seq = p.alert.Count, p.alert.Seq
	p.alert = a
}

// UpTo returns the alerts up to a stream sequence in the order of first arrival and
// keeps them. Of an alert that repeated after seq, it returns the earlier part.
func (l *List) UpTo(seq uint64) []alert.Pending {
	var all []alert.Pending
	for _, e := range l.entries {
		if a, n := e.upTo(seq); n > 0 {
			all = append(all, a)
		}
	}
	return all
}

// Take removes the alerts of UpTo whose index there is wanted. Of an alert that
// repeated after seq, the later part stays. Of one whose investigation ended after seq, the
// line about that stays.
func (l *List) Take(seq uint64, wanted func(i int) bool) {
	i := 0
	kept := l.entries[:0]
	for _, e := range l.entries {
		_, n := e.upTo(seq)
		if n > 0 && wanted(i) {
			switch {
			case n < len(e.parts):
				if !e.newsAfter(seq) {
					e.news = nil
				}
				e.reduceTo(slices.Delete(e.parts, 0, n))
				kept = append(kept, e)
			case e.newsAfter(seq):
				e.replaceLine(e.news.InvestigationEnd())
				kept = append(kept, e)
			}
		} else {
			kept = append(kept, e)
		}
		if n > 0 {
			i++
		}
	}
	clear(l.entries[len(kept):])
	l.entries = kept
}

// upTo returns the part of an entry up to a sequence, and of how many parts it
// consists. A resolved entry is one line and is not divided.
func (e *entry) upTo(seq uint64) (a alert.Pending, n int) {
	if e.alert.Seq <= seq {
		return alert.Pending{Alert: e.shownUpTo(seq), Since: earliestTime(e.parts)}, len(e.parts)
	}
	for n < len(e.parts) && e.parts[n].alert.Seq <= seq {
		n++
	}
	if n == 0 || n == len(e.parts) || e.alert.Resolved {
		return a, 0
	}
	earlier := mergeParts(e.parts[:n])
	if e.news != nil && !e.newsAfter(seq) {
		earlier.Investigation = e.news.Investigation
	}
	return alert.Pending{Alert: earlier, Since: earliestTime(e.parts[:n])}, n
}

// reduceTo reduces the entry to some of its parts.
func (e *entry) reduceTo(parts []part) {
	e.parts, e.offers = parts, 0
	for _, p := range parts {
		e.offers += p.offers
	}
	e.set(mergeParts(parts))
}

// MarkClaimed sets the sequences up to seq to 0: this list's owner claimed those
// alerts, so no other reader delivers them.
func (l *List) MarkClaimed(seq uint64) {
	for _, e := range l.entries {
		if e.alert.Seq <= seq {
			e.alert.Seq = 0
		}
		for i := range e.parts {
			if e.parts[i].alert.Seq <= seq {
				e.parts[i].alert.Seq = 0
			}
		}
		if e.news != nil && e.news.Seq <= seq {
			e.news.Seq = 0
		}
	}
}

// DiscardDelivered removes the alerts up to a sequence, which another reader
// delivered, and returns those that it removed whole. Claimed alerts stay, and so
// does the part of an alert that came after seq, and a line about an investigation
// that ended after seq.
func (l *List) DiscardDelivered(seq uint64) (removed []alert.Pending) {
	l.entries = slices.DeleteFunc(l.entries, func(e *entry) bool {
		if !e.discardDelivered(seq) {
			return false
		}
		removed = append(removed, alert.Pending{Alert: e.shownUpTo(seq), Since: earliestTime(e.parts)})
		if !e.newsAfter(seq) {
			return true
		}
		e.replaceLine(e.news.InvestigationEnd())
		return false
	})
	return removed
}

// discardDelivered removes parts of an entry and reports whether none is left. A
// resolved entry is one line and is not divided.
func (e *entry) discardDelivered(seq uint64) (empty bool) {
	delivered := func(a alert.Alert) bool { return a.Seq > 0 && a.Seq <= seq }
	if e.alert.Resolved {
		return delivered(e.alert)
	}
	rest := slices.DeleteFunc(slices.Clone(e.parts), func(p part) bool { return delivered(p.alert) })
	if len(rest) == 0 || len(rest) == len(e.parts) {
		return len(rest) == 0
	}
	if e.news != nil && delivered(*e.news) {
		e.news = nil
	}
	e.reduceTo(rest)
	return false
}

func mergeParts(parts []part) alert.Alert {
	a := parts[0].alert
	for _, p := range parts[1:] {
		a = alert.Merge(a, p.alert)
	}
	return a
}

// earliestTime returns the earliest time of the parts.
func earliestTime(parts []part) time.Time {
	since := parts[0].since
	for _, p := range parts[1:] {
		since = earlier(since, p.since)
	}
	return since
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
