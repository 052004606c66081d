package score

import "time"

// ColdStart is how long an app is new. Findings in that time are counted separately: no
// rule has learned what is usual.
const ColdStart = 10 * time.Minute

// Truth is the truth about a run.
type Truth struct {
	Length   time.Duration
	Episodes []Episode
	// Learning are stretches in which a recurring event cannot be distinguished from an
	// episode yet.
	Learning []Span
	// Loads are the times of page loads, in a run of page loads: then delays are counted in
	// loads, and false findings are related to loads instead of hours.
	Loads []time.Duration
}

// Episode is an incident that should be found from Start to End. A finding in the Grace
// after that is too late, but not false.
type Episode struct {
	Start, End, Grace time.Duration
}

// Span is a stretch of time, both ends included.
type Span struct{ From, To time.Duration }

// Tally holds counts over a stretch of one run, or of several.
type Tally struct {
	// Hours is the length without the cold start. Loads is the number of page loads without
	// the cold start and the episodes.
	Hours float64
	Loads int
	// Found of the Episodes were found in time. Delays are the times from their starts to
	// the first alert: in seconds, or in loads, where the first load of an episode is 1.
	Episodes, Found int
	Delays          []float64
	// FoundAt counts the episodes that were found in time with at least that confidence.
	FoundAt [confidences]int
	// Right counts the findings opened in an episode or its grace, False those opened
	// outside. FalseAt counts False by the highest confidence that a finding reached.
	Right, False int
	FalseAt      [confidences]int
	// Alarmed is the sum of the hours in which the False findings were open. While one is
	// open, a rule cannot raise another.
	Alarmed float64
	// Learning counts the False findings that were opened while learning.
	Learning int
	// Cold counts the findings opened in the cold start. No other field has them.
	Cold int
	// Notes counts the notes.
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

// Judge counts the findings and notes of one run, in blocks of a length. Blocks are nearly
// independent, so that intervals can be estimated by drawing from them. If the length is 0,
// the whole run is one block. An episode counts in the block in which it begins, a finding
// in the block in which it was opened.
func Judge(findings []Finding, notes []time.Duration, truth Truth, block time.Duration) []Tally {
	if block <= 0 || block > truth.Length {
		block = truth.Length
	}
	blocks := make([]Tally, max(1, int((truth.Length+block-1)/max(block, 1))))
	blockAt := func(at time.Duration) *Tally { return &blocks[min(int(at/max(block, 1)), len(blocks)-1)] }
	for i := range blocks {
		from, to := max(time.Duration(i)*block, ColdStart), min(time.Duration(i+1)*block, truth.Length)
		blocks[i].Hours = max(0, (to - from).Hours())
	}
	for _, at := range truth.Loads {
		if at >= ColdStart && truth.episode(at) == nil {
			blockAt(at).Loads++
		}
	}
	for i := range findings {
		t := &findings[i]
		at := t.Opened()
		b := blockAt(at)
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
				until = t.EndedAt
			}
			b.Alarmed += (until - at).Hours()
			if truth.learning(at) {
				b.Learning++
			}
		}
	}
	for _, at := range notes {
		blockAt(at).Notes++
	}
	for i := range truth.Episodes {
		truth.find(&truth.Episodes[i], findings, blockAt(truth.Episodes[i].Start))
	}
	return blocks
}

// find counts an episode, and whether it was found.
func (truth *Truth) find(e *Episode, findings []Finding, b *Tally) {
	b.Episodes++
	first, found := e.End+1, NoConfidence
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

// delay returns the time from the start of an episode to its first alert, in seconds or in
// loads.
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

// episode returns the episode at a time, its grace included, or nil.
func (truth *Truth) episode(at time.Duration) *Episode {
	for i := range truth.Episodes {
		if e := &truth.Episodes[i]; at >= e.Start && at <= e.End+e.Grace {
			return e
		}
	}
	return nil
}

// learning reports whether a time lies in a stretch of learning.
func (truth *Truth) learning(at time.Duration) bool {
	for _, s := range truth.Learning {
		if at >= s.From && at <= s.To {
			return true
		}
	}
	return false
}
