package changepoint

import "slices"

// The test of Mann and Whitney asks whether the newest values are larger than those
// of the reference without asking how either are spread: u counts the pairs of a
// newest value and one of the reference of which the newest is larger, and were
// all from one source, every order of them would be as likely. The distribution of
// u is counted out, not approximated.
//
// Of equal values neither counts as larger: u is the least that any order among
// equals gives, so that ties can hide something and never make something up.

// larger is u for values against a sorted reference.
func larger(values, sorted []int64) int {
	u := 0
	for _, v := range values {
		below, _ := slices.BinarySearch(sorted, v)
		u += below
	}
	return u
}

// smaller is u for values that are to be smaller.
func smaller(values, sorted []int64) int {
	u := 0
	for _, v := range values {
		upTo, _ := slices.BinarySearch(sorted, v+1)
		u += len(sorted) - upTo
	}
	return u
}

// orders counts, of the orders of Newest values among n others, those with each u.
func orders(n int) [Newest*Reference + 1]int64 {
	// counted[k] is for the first values of the order of which k are newest.
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

// tail is how many of all orders give u or more.
func tail(u, n int) (orMore, all int64) {
	for at, count := range orders(n) {
		all += count
		if at >= u {
			orMore += count
		}
	}
	return orMore, all
}

// chance is how likely a u as far out as this is, to either side, where nothing
// has changed.
func chance(u, n int) float64 {
	orMore, all := tail(u, n)
	return min(2*float64(orMore)/float64(all), 1)
}

// critical is for each size of the reference the least u with a chance under one in
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

// Tables of critical, for a regression, for an improvement, and for what is looked at
// at all.
var (
	worse  = critical(100)
	better = critical(5000)
	likely = critical(20)
)
