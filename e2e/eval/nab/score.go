package nab

import "math"

// Profile has the weights of a detection, of a false detection and of a missed window.
type Profile struct {
	Name                       string
	Found, FalseOnes, NotFound float64
}

// Profiles lists the profiles of the benchmark, from its config/profiles.json.
func Profiles() []Profile {
	return []Profile{
		{"standard", 1, 0.11, 1},
		{"reward_low_FP_rate", 1, 0.22, 1},
		{"reward_low_FN_rate", 1, 0.11, 2},
	}
}

// Probation returns how many of the first rows are not scored: 15%, of 5,000 rows at most.
func Probation(rows int) int {
	return int(min(math.Floor(0.15*float64(rows)), 0.15*5000))
}

// Score returns the score of detections on one file. detected has one value per row. Only the
// earliest detection in a window counts: it scores 1 in the first row, and little more than
// 0 in the last row. Each detection outside counts, but less soon after a window.
func (p Profile) Score(s *Series, detected []bool) float64 {
	best := make([]float64, len(s.Windows))
	for i := range best {
		best[i] = -p.NotFound
	}
	scored := make([]bool, len(s.Windows)) // has a row after the probation
	total, next, past := 0.0, 0, -1
	for row := range s.Values {
		for next < len(s.Windows) && s.Windows[next].Last < row {
			past, next = next, next+1
		}
		within := next < len(s.Windows) && row >= s.Windows[next].First
		if row < Probation(len(s.Values)) {
			continue
		}
		if within {
			scored[next] = true
		}
		switch {
		case !detected[row]:
		case within:
			w := s.Windows[next]
			position := -float64(w.Last-row+1) / float64(w.Last-w.First+1)
			best[next] = max(best[next], p.Found*sigmoid(position)/sigmoid(-1))
		case past < 0:
			total -= p.FalseOnes
		default:
			w := s.Windows[past]
			total += p.FalseOnes * sigmoid(float64(row-w.Last)/float64(w.Last-w.First))
		}
	}
	for i, b := range best {
		if scored[i] {
			total += b
		}
	}
	return total
}

// sigmoid is the benchmark's scaled sigmoid of a position relative to a window: -1 is its
// left edge and 0 its right edge. Far behind a window, and behind a window of one row, it
// is -1.
func sigmoid(position float64) float64 {
	if position >= 3 {
		return -1
	}
	return 2/(1+math.Exp(5*position)) - 1
}

// Normalised returns the score over a corpus, on a scale from 0, without any detection, to
// 100, with one in the first row of every window and no other. It is NaN for a corpus
// without windows.
func (p Profile) Normalised(corpus []Series, detected [][]bool) float64 {
	score, silent, perfect := 0.0, 0.0, 0.0
	for i := range corpus {
		s := &corpus[i]
		score += p.Score(s, detected[i])
		silent += p.Score(s, make([]bool, len(s.Values)))
		perfect += p.Found * float64(len(s.Windows))
	}
	return 100 * (score - silent) / (perfect - silent)
}
