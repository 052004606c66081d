// Package score compares the findings of a detector with the truth of a stream.
//
// It counts whole episodes and whole findings, as a person does who is woken by them: an
// episode is found once or missed, and a finding is false once, however often it is
// repeated while it is open. Nothing is adjusted to points. The package knows no
// detector, and of a generator only the truth that it declares.
package score

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Confidence is that of an alert, where its rule has one.
type Confidence int

// The confidences. Unsaid is for rules without one.
const (
	Unsaid Confidence = iota
	Single
	Probable
	Confirmed
	confidences
)

// Confidences lists all of them.
func Confidences() []Confidence { return []Confidence{Unsaid, Single, Probable, Confirmed} }

func (c Confidence) String() string {
	return [...]string{"unsaid", "single", "probable", "confirmed"}[c]
}

// confidence returns that in an alert's context.
func confidence(a *alert.Alert) Confidence {
	word, _ := a.Context["confidence"].(string)
	for _, c := range Confidences()[Single:] {
		if c.String() == word {
			return c
		}
	}
	return Unsaid
}

// Finding is one finding: the alert that opens it, and those that repeat it under its
// dedup key, or revise it, until one ends it.
type Finding struct {
	Alerts []Report
	// Over is when it ended, if Ended.
	Over  time.Duration
	Ended bool
}

// Report is one alert of a finding.
type Report struct {
	At         time.Duration
	Confidence Confidence
}

// Opened returns the time of the first alert.
func (t *Finding) Opened() time.Duration { return t.Alerts[0].At }

// Highest returns the highest confidence of the alerts between two times, both included,
// and whether there were any.
func (t *Finding) Highest(from, to time.Duration) (c Confidence, any bool) {
	for _, s := range t.Alerts {
		if s.At >= from && s.At <= to {
			c, any = max(c, s.Confidence), true
		}
	}
	return c, any
}

// Findings makes findings of the alerts of a run that began at start, in their order.
// Ends of findings count as nothing. An alert of severity info that ends nothing is a
// note, such as that a burst recurs: it reports a fact, not a problem. Only the times of
// notes are returned. A note that has not ended becomes a finding when an alert of a
// higher severity revises it.
func Findings(alerts []alert.Alert, start time.Time) (found []Finding, notes []time.Duration) {
	open := map[string]int{} // by dedup key, the places of findings
	keys, notable := map[string]string{}, map[string]bool{}
	for i := range alerts {
		a := &alerts[i]
		if a.Resolves != "" {
			for _, id := range append([]string{a.Resolves}, a.AlsoResolves...) {
				delete(notable, id)
				if of, is := open[keys[id]]; is {
					found[of].Over, found[of].Ended = a.Timestamp.Sub(start), true
					delete(open, keys[id])
				}
			}
		}
		if a.OnlyResolves() || a.Resolved {
			continue
		}
		if a.Severity == alert.Info {
			notes = append(notes, a.Timestamp.Sub(start))
			notable[a.ID] = true
			keys[a.ID] = a.DedupKey
			continue
		}
		said := Report{At: a.Timestamp.Sub(start), Confidence: confidence(a)}
		of, again := open[a.DedupKey]
		if !again && a.Revises != "" {
			of, again = open[keys[a.Revises]]
		}
		if !again {
			if a.Revises != "" && !notable[a.Revises] {
				continue // a revision of what has ended, which no reader shows
			}
			of = len(found)
			found = append(found, Finding{})
			open[a.DedupKey] = of
		}
		keys[a.ID] = a.DedupKey
		found[of].Alerts = append(found[of].Alerts, said)
	}
	return found, notes
}
