package tcpd

import "slices"

// Margin is the maximum distance, in observations, of a found change point from one that a
// person saw.
const Margin = 5

// F1 returns the harmonic mean of precision, over the change points that any person saw, and
// of recall, averaged over the people. The beginning counts as a change point for every
// person, so that precision and recall are always defined.
func F1(s *Series, found []int) float64 {
	found = points(found)
	var seen []int
	recall := 0.0
	for _, one := range s.Annotations {
		saw := points(one)
		seen = append(seen, saw...)
		recall += float64(matched(saw, found)) / float64(len(saw)) / float64(len(s.Annotations))
	}
	precision := float64(matched(points(seen), found)) / float64(len(found))
	return 2 * precision * recall / (precision + recall)
}

// points returns change points and the beginning, sorted, each once.
func points(found []int) []int {
	all := append([]int{0}, found...)
	slices.Sort(all)
	return slices.Compact(all)
}

// matched counts the true change points that can be paired with a found one within the
// margin. In order, each takes the nearest that is left, or the earlier of two.
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

// Covering returns how well the segments between the found change points cover the segments
// of each person: the best Jaccard index for each segment of the person, weighted by its
// length, averaged over the people.
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

// segment is a range of observations, without the end.
type segment struct{ begin, end int }

// segments returns the segments into which change points cut n observations. A change point
// is the first observation of a segment.
func segments(found []int, n int) []segment {
	all := points(found)
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
