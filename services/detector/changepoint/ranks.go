package changepoint

import "slices"

// The test of Mann and Whitney decides whether the newest values are larger than those of
// the reference, however either are distributed. u counts the pairs of a newest value and
// one of the reference in which the newest is larger. If all were from one source, every
// order of them would be equally likely. The distribution of u is counted exactly, not
// approximated.
//
// Neither of two equal values counts as larger, so ties can hide a change, but never
// suggest one.

// countLarger returns u for values that may be larger than a sorted reference.
func countLarger(values, sorted []int64) int {
	u := 0
	for _, v := range values {
		below, _ := slices.BinarySearch(sorted, v)
		u += below
	}
	return u
}

// countSmaller returns u for values that may be smaller than a sorted reference.
func countSmaller(values, sorted []int64) int {
	u := 0
	for _, v := range values {
		upTo, _ := slices.BinarySearch(sorted, v+1)
		u += len(sorted) - upTo
	}
	return u
}

// orders counts the orders of MaxSample values among n others by their u.
func orders(n int) [MaxSample*MaxReference + 1]int64 {
	// counted[k][u] is the number of orders of the values so far, with k newest ones, that
	// give u.
	var counted [MaxSample + 1][MaxSample*MaxReference + 1]int64
	counted[0][0] = 1
	for index := range n + MaxSample {
		for k := min(index, MaxSample-1); k >= 0; k-- {
			below := index - k // what the next value adds to u if it is one of the newest
			if below > n {
				continue
			}
			for u := 0; u+below <= MaxSample*n; u++ {
				counted[k+1][u+below] += counted[k][u]
			}
		}
	}
	return counted[MaxSample]
}

// tail counts the orders that give u or more, and all orders.
func tail(u, n int) (orMore, all int64) {
	for value, count := range orders(n) {
		all += count
		if value >= u {
			orMore += count
		}
	}
	return orMore, all
}

// chance returns the two-sided probability of a u at least as far out, if nothing has
// changed.
func chance(u, n int) float64 {
	orMore, all := tail(u, n)
	return min(2*float64(orMore)/float64(all), 1)
}

// critical returns for each size n of the reference the least u with a chance under 1/oneIn,
// or MaxSample*n+1 if there is none.
func critical(oneIn int64) (least [MaxReference + 1]int) {
	for n := range least {
		counts := orders(n)
		u, orMore, all := MaxSample*n+1, int64(0), int64(0)
		for _, count := range counts {
			all += count
		}
		for u > 0 && 2*(orMore+counts[u-1])*oneIn < all {
			u--
			orMore += counts[u]
		}
		least[n] = u
	}
	return least
}

// The least u of a rise, of a fall, and of values that are compared with the whole past.
var (
	worseU    = critical(100)
	improvedU = critical(5000)
	likelyU   = critical(20)
)
