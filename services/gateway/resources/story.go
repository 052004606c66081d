package resources

import (
	"cmp"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Story is one alert of the history and what became of it: it may have been
// revised, repeated and resolved since. It is pure.
type Story struct {
	// Alert is the alert as it was published, or its newest revision.
	Alert alert.Alert `json:"alert"`
	// Revisions is how many there were, and Repetitions how many findings beside
	// its own.
	Revisions   int `json:"revisions"`
	Repetitions int `json:"repetitions"`
	// LastSeen is when it was found, revised or repeated last, as alerts write
	// times.
	LastSeen string `json:"last_seen"`
	// ResolvedBy is the id of the alert that said it is over, unless it was
	// repeated after that.
	ResolvedBy string `json:"resolved_by,omitempty"`

	// id is the alert's, first the one that its revisions name.
	id, first string
	key       alert.MergeKey
}

// NewStory begins with an alert.
func NewStory(a alert.Alert) Story {
	return Story{
		Alert: a, LastSeen: alert.FormatTime(a.Timestamp),
		id: a.ID, first: cmp.Or(a.Revises, a.ID), key: a.MergeKey(),
	}
}

// GoOn takes in an alert that came later, and says whether it is a part of the
// story.
func (s *Story) GoOn(a alert.Alert) bool {
	over := s.key
	over.Over = true
	switch {
	case a.ID == s.id: // published twice
		return false
	case a.Revises != "":
		if a.Revises != s.first {
			return false
		}
		s.Alert = a
		s.Revisions++
	case a.MergeKey() == s.key:
		s.Repetitions += a.Occurrences()
		s.ResolvedBy = ""
	case a.Ends(s.id), a.Ends(s.first), a.MergeKey() == over:
		s.ResolvedBy = a.ID
		return true
	default:
		return false
	}
	s.LastSeen = alert.FormatTime(a.Timestamp)
	return true
}

// Show puts the alert as it is told in the place of the one that was published.
// What comes from there on is taken in as it is told, too.
func (s *Story) Show(told alert.Alert) {
	over := s.key.Over
	s.Alert, s.key = told, told.MergeKey()
	s.key.Over = over
}
