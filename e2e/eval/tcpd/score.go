package tcpd

import (
	"slices"
)

// Margin is how far a change point may be off and still be one that a person saw.
const Margin = 5

// F1 is the harmonic mean of precision, over the change points that anybody saw,
// and recall, averaged over the people. The beginning counts as a change point of
// everybody, so that neither is ever of nothing.
func F1(s *Series, found []int) float64 {
	found = points(found)
	var anybody []int
	recall := 0.0
	for _, one := range s.Annotations {
		saw := points(one)
		anybody = append(anybody, saw...)
		recall += float64(matched(saw, found)) / float64(len(saw)) / float64(len(s.Annotations))
	}
	precision := float64(matched(points(anybody), found)) / float64(len(found))
	return 2 * precision * recall / (precision + recall)
}

// points sorts change points, each once, the beginning among them.
func points(of []int) []int {
	all := append([]int{0}, of...)
	slices.Sort(all)
	return slices.Compact(all)
}

// matched counts the true change points, from the first on, that have a found one
// within the margin which is not taken yet: the nearest, of two the earlier.
func matched(truth, found []int) int {
	left, n := slices.Clone(found), 0
	for _, t := range truth {
		best := -1
		for i, f := range left {
			if d := distance(t, f); d <= Margin && (best < 0 || d < distance(t, left[best])) {
				best = i
			}
		}
		if best >= 0 {
			left = slices.Delete(left, best, best+1)
			n++
		}
	}
	return n
}

func distance(a, b int) int { return max(a-b, b-a) }

// Covering is how well the segments between the change points found cover those of
// each person: for each of the person's segments the best Jaccard index, weighted
// by its length, averaged over the people.
func Covering(s *Series, found []int) float64 {
	mine := segments(found, s.Observations())
	total := 0.0
	for _, one := range s.Annotations {
		for _, truth := range segments(one, s.Observations()) {
			best := 0.0
			for _, m := range mine {
				best = max(best, truth.jaccard(m))
			}
			total += best * float64(truth.length())
		}
	}
	return total / float64(s.Observations()) / float64(len(s.Annotations))
}

// segment is a stretch of observations, the end not included.
type segment struct{ begin, end int }

// segments is what change points, each the first observation of what is new, cut n
// observations into.
func segments(at []int, n int) []segment {
	all := points(at)
	var cut []segment
	for i, begin := range all {
		if begin >= n {
			break
		}
		end := n
		if i+1 < len(all) {
			end = min(all[i+1], n)
		}
		cut = append(cut, segment{begin, end})
	}
	return cut
}

func (a segment) length() int { return a.end - a.begin }

func (a segment) jaccard(b segment) float64 {
	common := max(0, min(a.end, b.end)-max(a.begin, b.begin))
	return float64(common) / float64(a.length()+b.length()-common)
}
