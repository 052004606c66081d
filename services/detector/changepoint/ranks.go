package changepoint

import "slices"

// The test of Mann and Whitney decides whether the newest values are larger than those of
// the reference, however either are distributed. u counts the pairs of a newest value and
// one of the reference of which the newest is larger. If all were from one source, every
// order of them would be equally likely. The distribution of u is counted exactly, not
// approximated.
//
// Of equal values neither counts as larger: u is the least that any order among equals
// gives, so ties can hide a change, but never suggest one.

// larger returns u for values against a sorted reference.
func larger(values, sorted []int64) int {
	u := 0
	for _, v := range values {
		below, _ := slices.BinarySearch(sorted, v)
		u += below
	}
	return u
}

// smaller returns u for values that should be smaller.
func smaller(values, sorted []int64) int {
	u := 0
	for _, v := range values {
		upTo, _ := slices.BinarySearch(sorted, v+1)
		u += len(sorted) - upTo
	}
	return u
}

// orders counts the orders of Newest values among n others by their u.
func orders(n int) [Newest*Reference + 1]int64 {
	// counted[k] is for the first values of the order, k of which are newest.
	var counted [Newest + 1][Newest*Reference + 1]int64
	counted[0][0] = 1
	for place := range n + Newest {
		for k := min(place, Newest-1); k >= 0; k-- {
			below := place - k // of the n, should the next be one of the newest
			if below > n {
				continue
			}
			for u := 0; u+below <= Newest*n; u++ {
				counted[k+1][u+below] += counted[k][u]
			}
		}
	}
	return counted[Newest]
}

// tail counts the orders that give u or more, and all orders.
func tail(u, n int) (orMore, all int64) {
	for at, count := range orders(n) {
		all += count
		if at >= u {
			orMore += count
		}
	}
	return orMore, all
}

// chance returns the probability of a u as far out as this, to either side, if nothing has
// changed.
func chance(u, n int) float64 {
	orMore, all := tail(u, n)
	return min(2*float64(orMore)/float64(all), 1)
}

// critical returns for each size of the reference the least u with a chance under one in
// that many, or 5n+1 where there is none.
func critical(oneIn int64) (least [Reference + 1]int) {
	for n := range least {
		counts := orders(n)
		u, orMore, all := Newest*n+1, int64(0), int64(0)
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

// Tables of critical, for a regression, for an improvement, and for what is tested at all.
var (
	worse  = critical(100)
	better = critical(5000)
	likely = critical(20)
)
