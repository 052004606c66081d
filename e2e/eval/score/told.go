// Package score compares what a detector told with what is true of a stream.
//
// It counts whole episodes and whole findings, as a person does who is woken by
// them: an episode is found once or missed, and a finding is false once, however
// often it is repeated while it is open. Nothing is adjusted to points. The
// package knows no detector and no generator beside the truth that one declares.
package score

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Confidence is what an alert says of itself, where its rule weighs that.
type Confidence int

// The confidences. Unsaid is for rules that say none.
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

// confidence is what an alert's context says.
func confidence(a *alert.Alert) Confidence {
	word, _ := a.Context["confidence"].(string)
	for _, c := range Confidences()[Single:] {
		if c.String() == word {
			return c
		}
	}
	return Unsaid
}

// Told is one finding: the alert that opens it, and those that tell it again under
// its dedup key, or revise it, until one reports whether it is over.
type Told struct {
	Alerts []Said
	// Over is when it was said to be over, if Ended.
	Over  time.Duration
	Ended bool
}

// Said is one alert of a finding.
type Said struct {
	At         time.Duration
	Confidence Confidence
}

// Opened is when the finding was reported first.
func (t *Told) Opened() time.Duration { return t.Alerts[0].At }

// Highest is the highest confidence that the finding had between two times, both
// included, and whether it was reported then.
func (t *Told) Highest(from, to time.Duration) (c Confidence, any bool) {
	for _, s := range t.Alerts {
		if s.At >= from && s.At <= to {
			c, any = max(c, s.Confidence), true
		}
	}
	return c, any
}

// Tell makes findings of alerts in the order in which they came, of a run that
// began at start. Ends of findings are reported to nobody's disadvantage: they count
// as nothing. What is of severity info and ends nothing reports whether something is so,
// not that it is wrong, as that a burst recurs: it is a note, and of those there
// are the times. A note that is not over becomes a finding when an alert of a higher
// severity revises it.
func Tell(alerts []alert.Alert, start time.Time) (told []Told, notes []time.Duration) {
	open := map[string]int{} // by dedup key, the places of findings
	keys, notable := map[string]string{}, map[string]bool{}
	for i := range alerts {
		a := &alerts[i]
		if a.Resolves != "" {
			for _, id := range append([]string{a.Resolves}, a.AlsoResolves...) {
				delete(notable, id)
				if of, is := open[keys[id]]; is {
					told[of].Over, told[of].Ended = a.Timestamp.Sub(start), true
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
		said := Said{At: a.Timestamp.Sub(start), Confidence: confidence(a)}
		of, again := open[a.DedupKey]
		if !again && a.Revises != "" {
			of, again = open[keys[a.Revises]]
		}
		if !again {
			if a.Revises != "" && !notable[a.Revises] {
				continue // of what is over already: nobody is shown it
			}
			of = len(told)
			told = append(told, Told{})
			open[a.DedupKey] = of
		}
		keys[a.ID] = a.DedupKey
		told[of].Alerts = append(told[of].Alerts, said)
	}
	return told, notes
}
