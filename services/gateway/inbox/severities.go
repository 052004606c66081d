package inbox

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// maxSeverities is the number of alerts whose severity is remembered. Beyond it the
// one recorded first is forgotten, and a revision of it is ignored.
const maxSeverities = 500

// Severities remembers the highest severity of each alert, revisions included. It
// decides which revision raises the severity, and how severe a finding was that is
// resolved. The zero value is empty. It is not safe for concurrent use.
type Severities struct {
	// seen is a ring once it is full, with the oldest entry at next. A linear search
	// takes less than a microsecond.
	seen []severity
	next int
}

// severity is the severity rank of an alert, by a hash of its id.
type severity struct {
	id   uint64
	rank int8
}

var seed = maphash.MakeSeed()

// find returns the severity of an alert, or nil if it is not known.
func (s *Severities) find(id string) *severity {
	hash := maphash.String(seed, id)
	i := slices.IndexFunc(s.seen, func(known severity) bool { return known.id == hash })
	if i < 0 {
		return nil
	}
	return &s.seen[i]
}

// Record remembers an alert's severity. A revision counts for the alert that it
// revises.
func (s *Severities) Record(a alert.Alert) {
	id, rank := cmp.Or(a.Revises, a.ID), int8(a.Severity.Rank())
	if known := s.find(id); known != nil {
		known.rank = max(known.rank, rank)
		return
	}
	first := severity{maphash.String(seed, id), rank}
	if len(s.seen) < maxSeverities {
		s.seen = append(s.seen, first)
		return
	}
	s.seen[s.next] = first
	s.next = (s.next + 1) % maxSeverities
}

// Raises reports whether an alert revises one that is known to be less severe, in
// all its revisions.
func (s *Severities) Raises(a alert.Alert) bool {
	if a.Revises == "" {
		return false
	}
	before := s.find(a.Revises)
	return before != nil && a.Severity.Rank() > int(before.rank)
}

// RankOfFinding returns the severity rank of the finding that an alert is about. For
// a resolution that is the most severe alert that it resolves; an unknown alert counts
// as an error, because its resolution must not be evicted in favor of a warning.
func (s *Severities) RankOfFinding(a alert.Alert) int {
	worst := a.Severity.Rank()
	if a.Resolves == "" {
		return worst
	}
	for _, id := range append([]string{a.Resolves}, a.AlsoResolves...) {
		known := s.find(id)
		if known == nil {
			return alert.Error.Rank()
		}
		worst = max(worst, int(known.rank))
	}
	return worst
}
