package inbox

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// maxInvestigations is the number of alerts whose newest investigation is remembered.
	// Beyond it the oldest is forgotten, and a revision that raises the severity of that alert
	// has no investigation.
	maxInvestigations = 100
	// maxInvestigationEnds is the number of ends that are remembered. Beyond it the oldest
	// is forgotten; the bus stores none twice within an hour.
	maxInvestigationEnds = 500
)

// Investigations remembers the newest investigation of each alert, and which ends arrived.
// It decides which revision is news. The zero value is empty. It is not safe for concurrent
// use.
type Investigations struct {
	// newest and ends hold the oldest first.
	newest []investigated
	ends   []uint64
}

// investigated is the newest investigation of an alert, by a hash of its id.
type investigated struct {
	id     uint64
	newest *alert.Investigation
}

// Record remembers the investigation of an alert and reports whether the alert is a revision
// with an end that has not arrived before.
func (s *Investigations) Record(a alert.Alert) (news bool) {
	if a.Investigation == nil {
		return false
	}
	id := maphash.String(seed, cmp.Or(a.Revises, a.ID))
	end := endOf(id, a.Investigation)
	if a.EndsInvestigation() && slices.Contains(s.ends, end) { // published twice: what came since is newer
		return false
	}
	s.newest = slices.DeleteFunc(s.newest, func(i investigated) bool { return i.id == id })
	s.newest = append(dropOldest(s.newest, maxInvestigations), investigated{id, a.Investigation})
	if !a.EndsInvestigation() {
		return false
	}
	s.ends = append(dropOldest(s.ends, maxInvestigationEnds), end)
	return true
}

// Repeats reports whether the alert brings an end that has arrived before.
func (s *Investigations) Repeats(a alert.Alert) bool {
	if !a.EndsInvestigation() {
		return false
	}
	id := maphash.String(seed, a.Revises)
	return slices.Contains(s.ends, endOf(id, a.Investigation))
}

// investigationEnd identifies the end of an investigation. Each attempt of a session can end once
// with each status.
type investigationEnd struct {
	alert   uint64
	session string
	status  alert.InvestigationStatus
	attempt int
}

// endOf returns the hash of an end.
func endOf(id uint64, i *alert.Investigation) uint64 {
	return maphash.Comparable(seed, investigationEnd{id, i.SessionID, i.Status, i.Attempt})
}

// Keep returns a revision without an investigation with that of the alert that it revises.
func (s *Investigations) Keep(a alert.Alert) alert.Alert {
	if a.Revises == "" || a.Investigation != nil {
		return a
	}
	id := maphash.String(seed, a.Revises)
	if i := slices.IndexFunc(s.newest, func(known investigated) bool { return known.id == id }); i >= 0 {
		a.Investigation = s.newest[i].newest
	}
	return a
}

// dropOldest makes room for one more element in a list of at most limit.
func dropOldest[T any](list []T, limit int) []T {
	return slices.Delete(list, 0, max(len(list)+1-limit, 0))
}

// investigate gives the entry the investigation of a revision. All else stays as it is,
// because the revision has what was stored when its publisher read the alert, and may be
// older; only a severity that it raises holds. An end that is news keeps the revision's
// sequence: a reader who delivered the alert without it still delivers the end, as one
// line.
func (e *entry) investigate(a alert.Alert, news bool) {
	if e.alert.OnlyInvestigation {
		line := a.InvestigationEnd()
		if !news {
			line.Seq = e.alert.Seq
		}
		e.replaceLine(line)
		return
	}
	part := e.partOf(a.Revises)
	e.news = nil
	if news {
		e.news = &a
	} else {
		e.alert.Investigation, part.alert.Investigation = a.Investigation, a.Investigation
	}
	if a.Severity.Rank() > e.alert.Severity.Rank() && !e.alert.Resolved {
		e.alert.Severity, part.alert.Severity = a.Severity, a.Severity
	}
}

// replaceLine replaces the entry by one line.
func (e *entry) replaceLine(line alert.Alert) {
	e.news, e.parts, e.offers, e.repeats = nil, nil, 1, nil
	e.set(line)
	e.addPart(line)
}

// shown returns the entry's alert for a reader of all alerts.
func (e *entry) shown() alert.Alert {
	if e.news == nil {
		return e.alert
	}
	a := e.alert
	a.Investigation = e.news.Investigation
	return a
}

// shownUpTo is shown for a reader of the alerts up to a sequence.
func (e *entry) shownUpTo(seq uint64) alert.Alert {
	if e.newsAfter(seq) {
		return e.alert
	}
	return e.shown()
}

// newsAfter reports whether the entry has an end of an investigation that came after seq.
func (e *entry) newsAfter(seq uint64) bool { return e.news != nil && e.news.Seq > seq }
