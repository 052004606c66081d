package score

import (
	"time"
)

// ColdStart is how long an app is new. What is reported then is counted apart: before
// anything is known everything is unusual.
const ColdStart = 10 * time.Minute

// Truth is what is true of a run.
type Truth struct {
	Length   time.Duration
	Episodes []Episode
	// Learning are stretches in which what is no episode can't be reported from one.
	Learning []Span
	// Loads are the times of page loads, where it is a run of those: then delays
	// are counted in loads, and what is false is set against loads.
	Loads []time.Duration
}

// Episode is something that should be reported from Start to End. From there on, for as
// long as Grace, telling it finds nothing and is not false.
type Episode struct {
	Start, End, Grace time.Duration
}

// Span is a stretch of time, both ends included.
type Span struct{ From, To time.Duration }

// Tally is what was counted over a stretch of one run. Sums of tallies are
// tallies.
type Tally struct {
	// Hours and Loads are what was watched without the cold start, Loads only those
	// outside of episodes.
	Hours float64
	Loads int
	// Episodes were there and Found of them findings in time, Delays how long after
	// their start: in seconds, or in loads of which the first of an episode is 1.
	Episodes, Found int
	Delays          []float64
	// FoundAt counts the episodes that were reported in time with at least that
	// confidence.
	FoundAt [confidences]int
	// Right findings were opened in an episode or its grace, False ones outside.
	// FalseAt counts the latter by the highest confidence that they ever had.
	Right, False int
	FalseAt      [confidences]int
	// Alarmed is for how many hours the False ones were open, all together: as long
	// as one is open, what else is false goes under.
	Alarmed float64
	// Learning is how many of the False ones were opened while learning.
	Learning int
	// Cold findings were opened in the cold start, and are in nothing else.
	Cold int
	// Notes were reported, which are no findings.
	Notes int
}

// Add adds another tally to t.
func (t *Tally) Add(o *Tally) {
	t.Hours += o.Hours
	t.Loads += o.Loads
	t.Episodes += o.Episodes
	t.Found += o.Found
	t.Delays = append(t.Delays, o.Delays...)
	t.Right += o.Right
	t.False += o.False
	t.Alarmed += o.Alarmed
	t.Learning += o.Learning
	t.Cold += o.Cold
	t.Notes += o.Notes
	for c := range confidences {
		t.FoundAt[c] += o.FoundAt[c]
		t.FalseAt[c] += o.FalseAt[c]
	}
}

// Judge counts the findings and notes of one run, in blocks of a length: what happens within
// one block hardly depends on another, so that they can be drawn from. The whole
// run is one block where the length is 0. An episode is of the block in which it
// begins, a finding of that in which it was opened.
func Judge(findings []Finding, notes []time.Duration, truth Truth, block time.Duration) []Tally {
	if block <= 0 || block > truth.Length {
		block = truth.Length
	}
	blocks := make([]Tally, max(1, int((truth.Length+block-1)/max(block, 1))))
	of := func(at time.Duration) *Tally { return &blocks[min(int(at/max(block, 1)), len(blocks)-1)] }
	for i := range blocks {
		from, to := max(time.Duration(i)*block, ColdStart), min(time.Duration(i+1)*block, truth.Length)
		blocks[i].Hours = max(0, (to - from).Hours())
	}
	for _, at := range truth.Loads {
		if at >= ColdStart && truth.episode(at) == nil {
			of(at).Loads++
		}
	}
	for i := range findings {
		t := &findings[i]
		at := t.Opened()
		b := of(at)
		switch {
		case at < ColdStart:
			b.Cold++
		case truth.episode(at) != nil:
			b.Right++
		default:
			b.False++
			highest, _ := t.Highest(0, truth.Length)
			b.FalseAt[highest]++
			until := truth.Length
			if t.Ended {
				until = t.Over
			}
			b.Alarmed += (until - at).Hours()
			if truth.learning(at) {
				b.Learning++
			}
		}
	}
	for _, at := range notes {
		of(at).Notes++
	}
	for i := range truth.Episodes {
		truth.find(&truth.Episodes[i], findings, of(truth.Episodes[i].Start))
	}
	return blocks
}

// find counts an episode.
func (truth *Truth) find(e *Episode, findings []Finding, b *Tally) {
	b.Episodes++
	first, found := e.End+1, Unsaid
	for i := range findings {
		highest, in := findings[i].Highest(e.Start, e.End)
		if !in {
			continue
		}
		found = max(found, highest)
		for _, s := range findings[i].Alerts {
			if s.At >= e.Start {
				first = min(first, s.At)
				break
			}
		}
	}
	if first > e.End {
		return
	}
	b.Found++
	for c := range found + 1 {
		b.FoundAt[c]++
	}
	b.Delays = append(b.Delays, truth.delay(e.Start, first))
}

func (truth *Truth) delay(from, to time.Duration) float64 {
	if truth.Loads == nil {
		return (to - from).Seconds()
	}
	n := 0
	for _, at := range truth.Loads {
		if at >= from && at <= to {
			n++
		}
	}
	return float64(n)
}

// episode is the one that a time lies in, grace included, or nil.
func (truth *Truth) episode(at time.Duration) *Episode {
	for i := range truth.Episodes {
		if e := &truth.Episodes[i]; at >= e.Start && at <= e.End+e.Grace {
			return e
		}
	}
	return nil
}

func (truth *Truth) learning(at time.Duration) bool {
	for _, s := range truth.Learning {
		if at >= s.From && at <= s.To {
			return true
		}
	}
	return false
}
