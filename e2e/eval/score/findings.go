// Package score compares the findings of a detector with the truth of a stream.
//
// It counts whole episodes and whole findings, like an on-call engineer: an episode is
// found once or missed, and a false finding counts once, however often it repeats while it
// is open. The package knows no detector, and no generator of streams except for the truth
// that it declares.
package score

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Confidence is the confidence of an alert, for rules that have one.
type Confidence int

// The confidences. NoConfidence is for rules without one.
const (
	NoConfidence Confidence = iota
	Single
	Probable
	Confirmed
	confidences
)

// Confidences lists all of them.
func Confidences() []Confidence { return []Confidence{NoConfidence, Single, Probable, Confirmed} }

func (c Confidence) String() string {
	return [...]string{"none", "single", "probable", "confirmed"}[c]
}

// confidence returns the confidence in an alert's context.
func confidence(a *alert.Alert) Confidence {
	word, _ := a.Context["confidence"].(string)
	for _, c := range Confidences()[Single:] {
		if c.String() == word {
			return c
		}
	}
	return NoConfidence
}

// Finding is the alert that opens it, and the alerts that repeat it under its dedup key or
// revise it until one ends it.
type Finding struct {
	Alerts []Report
	// EndedAt is when it ended, if Ended is set.
	EndedAt time.Duration
	Ended   bool
}

// Report is one alert of a finding.
type Report struct {
	At         time.Duration
	Confidence Confidence
}

// Opened returns the time of the first alert.
func (t *Finding) Opened() time.Duration { return t.Alerts[0].At }

// Highest returns the highest confidence of the alerts from one time to another, both
// included. any is false if there were none.
func (t *Finding) Highest(from, to time.Duration) (c Confidence, any bool) {
	for _, s := range t.Alerts {
		if s.At >= from && s.At <= to {
			c, any = max(c, s.Confidence), true
		}
	}
	return c, any
}

// Findings groups the alerts of a run that began at start into findings, in their order.
// An alert that ends a finding is not one itself. An alert of severity info that ends
// nothing is a note, such as one about a burst that recurs: only the times of notes are
// returned. A note that has not ended becomes a finding when an alert of a higher severity
// revises it.
func Findings(alerts []alert.Alert, start time.Time) (found []Finding, notes []time.Duration) {
	open := map[string]int{} // indexes in found, by dedup key
	keys, openNotes := map[string]string{}, map[string]bool{}
	for i := range alerts {
		a := &alerts[i]
		if a.Resolves != "" {
			for _, id := range append([]string{a.Resolves}, a.AlsoResolves...) {
				delete(openNotes, id)
				if i, isOpen := open[keys[id]]; isOpen {
					found[i].EndedAt, found[i].Ended = a.Timestamp.Sub(start), true
					delete(open, keys[id])
				}
			}
		}
		if a.OnlyResolves() || a.Resolved {
			continue
		}
		if a.Severity == alert.Info {
			notes = append(notes, a.Timestamp.Sub(start))
			openNotes[a.ID] = true
			keys[a.ID] = a.DedupKey
			continue
		}
		finding, isOpen := open[a.DedupKey]
		if !isOpen && a.Revises != "" {
			finding, isOpen = open[keys[a.Revises]]
		}
		if !isOpen {
			if a.Revises != "" && !openNotes[a.Revises] {
				continue // it revises a finding that has ended: no reader shows it
			}
			finding = len(found)
			found = append(found, Finding{})
			open[a.DedupKey] = finding
		}
		keys[a.ID] = a.DedupKey
		found[finding].Alerts = append(found[finding].Alerts, Report{At: a.Timestamp.Sub(start), Confidence: confidence(a)})
	}
	return found, notes
}
