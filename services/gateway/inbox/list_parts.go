package inbox

import (
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// maxParts is how many alerts an entry remembers as they came. Past it the two
// oldest become one, at the place of the newer: a reader that comes between the
// two tells it once more, where it would otherwise be told by none.
const maxParts = 16

// part is an alert that was added or merged, as it came or was revised.
type part struct {
	alert alert.Alert
	// id is the one by which it came, which revisions name.
	id string
	// since is when the first came of those that it is, offers how many: one, but
	// for the oldest.
	since  time.Time
	offers int
}

// join remembers that an alert is in the entry.
func (e *entry) join(a alert.Alert) {
	e.parts = append(e.parts, part{a, a.ID, a.Timestamp, 1})
	if len(e.parts) > maxParts {
		first, second := e.parts[0], e.parts[1]
		e.parts[1] = part{alert.Merge(first.alert, second.alert), first.id, earlier(first.since, second.since), first.offers + second.offers}
		e.parts = slices.Delete(e.parts, 0, 1)
	}
}

// revise remembers a revision in the place of what it revises.
func (e *entry) revise(a alert.Alert) {
	i := slices.IndexFunc(e.parts, func(p part) bool { return p.id == a.Revises })
	p := &e.parts[max(i, 0)] // one that is not known any more is in the oldest
	a = a.Whole()
	a.Count, a.Seq = p.alert.Count, p.alert.Seq
	p.alert = a
}

// UpTo returns what came up to a position in the stream, in the order of first
// arrival, and keeps it. Of an alert that came again after it, it is what came up to
// there.
func (l *List) UpTo(seq uint64) []alert.Pending {
	var all []alert.Pending
	for _, e := range l.entries {
		if a, n := e.upTo(seq); n > 0 {
			all = append(all, a)
		}
	}
	return all
}

// Take removes what UpTo returns and wanted says yes to, by its index there. Of an
// alert that came again after the position, the rest stays: each is delivered by the
// reader that its position belongs to.
func (l *List) Take(seq uint64, wanted func(i int) bool) {
	i := 0
	kept := l.entries[:0]
	for _, e := range l.entries {
		_, n := e.upTo(seq)
		if n > 0 && wanted(i) {
			if n < len(e.parts) {
				e.keep(slices.Delete(e.parts, 0, n))
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

// upTo returns what of an entry came up to a position, and how many of its parts that
// is. What is over is one line, whole.
func (e *entry) upTo(seq uint64) (a alert.Pending, n int) {
	if e.alert.Seq <= seq {
		return e.pending(), len(e.parts)
	}
	for n < len(e.parts) && e.parts[n].alert.Seq <= seq {
		n++
	}
	if n == 0 || n == len(e.parts) || e.alert.Resolved {
		return a, 0
	}
	return alert.Pending{Alert: merged(e.parts[:n]), Since: begun(e.parts[:n])}, n
}

// keep leaves some of its parts in the entry.
func (e *entry) keep(parts []part) {
	e.parts, e.offers = parts, 0
	for _, p := range parts {
		e.offers += p.offers
	}
	e.become(merged(parts))
}

// Own makes the places of what came up to one unknown: it was taken for this list
// alone, so no other reader tells it.
func (l *List) Own(seq uint64) {
	for _, e := range l.entries {
		if e.alert.Seq <= seq {
			e.alert.Seq = 0
		}
		for i := range e.parts {
			if e.parts[i].alert.Seq <= seq {
				e.parts[i].alert.Seq = 0
			}
		}
	}
}

// DropTold forgets what came up to a place in the stream and was told by another
// reader, and returns what it forgot whole. What has no place was not told; of an
// alert of which a part was, the rest stays.
func (l *List) DropTold(seq uint64) (gone []alert.Pending) {
	l.entries = slices.DeleteFunc(l.entries, func(e *entry) bool {
		told := e.dropTold(seq)
		if told {
			gone = append(gone, e.pending())
		}
		return told
	})
	return gone
}

// dropTold forgets parts of an entry, and says whether nothing is left of it.
// What is over is told in one line, whole.
func (e *entry) dropTold(seq uint64) bool {
	told := func(a alert.Alert) bool { return a.Seq > 0 && a.Seq <= seq }
	if e.alert.Resolved {
		return told(e.alert)
	}
	rest := slices.DeleteFunc(slices.Clone(e.parts), func(p part) bool { return told(p.alert) })
	if len(rest) == 0 || len(rest) == len(e.parts) {
		return len(rest) == 0
	}
	e.keep(rest)
	return false
}

func merged(parts []part) alert.Alert {
	a := parts[0].alert
	for _, p := range parts[1:] {
		a = alert.Merge(a, p.alert)
	}
	return a
}

// begun is when the first of them came.
func begun(parts []part) time.Time {
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
