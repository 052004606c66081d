package changepoint

import (
	"math/bits"
	"slices"
	"testing"
)

// choices calls f with each choice of 5 of n indexes, as bits.
func choices(n int, f func(chosen uint32)) {
	for chosen := uint32(1)<<MaxSample - 1; chosen < 1<<n; {
		f(chosen)
		// The next larger number with as many bits (Gosper).
		low := chosen & -chosen
		high := chosen + low
		chosen = high | (chosen^high)/low>>2
	}
}

// parted returns the values at the chosen indexes, and the others, sorted.
func parted(pool []int64, chosen uint32) (values, others []int64) {
	for i, v := range pool {
		if chosen>>i&1 == 1 {
			values = append(values, v)
		} else {
			others = append(others, v)
		}
	}
	return values, others
}

// TestOrders counts u over all arrangements of different values, pair by pair.
func TestOrders(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5, 9, 20} {
		pool := make([]int64, n+MaxSample)
		for i := range pool {
			pool[i] = int64(10 * i)
		}
		var want [MaxSample*MaxReference + 1]int64
		all := int64(0)
		choices(n+MaxSample, func(chosen uint32) {
			values, others := parted(pool, chosen)
			u := 0
			for _, v := range values {
				for _, o := range others {
					if v > o {
						u++
					}
				}
			}
			if countLarger(values, others) != u || countSmaller(values, others) != MaxSample*n-u {
				t.Fatalf("%v against %v: u = %d and %d, want %d and %d", values, others, countLarger(values, others), countSmaller(values, others), u, MaxSample*n-u)
			}
			want[u]++
			all++
		})
		if got := orders(n); got != want {
			t.Errorf("orders(%d) = %v\nwant %v", n, got, want)
		}
		if _, got := tail(0, n); got != all {
			t.Errorf("tail(0, %d) counts %d orders, want %d", n, got, all)
		}
	}
}

// TestCritical checks that the least u of the tables has a chance under the limit, and that
// the one below has not. The values for 5 against 5, 10 and 20 at 1% are 5n minus those that
// are printed for the two-sided test (Mann and Whitney 1947; Milton 1964): 0, 4, 13.
func TestCritical(t *testing.T) {
	for n, printed := range map[int]int{5: 0, 10: 4, 20: 13} {
		if got := MaxSample*n - worseU[n]; got != printed {
			t.Errorf("critical value against %d = %d, want the printed %d", n, got, printed)
		}
	}
	for limit, table := range map[float64][MaxReference + 1]int{0.01: worseU, 0.0002: improvedU} {
		for n, least := range table {
			if least <= MaxSample*n && chance(least, n) >= limit || least > 0 && chance(least-1, n) < limit {
				t.Errorf("u = %d against %d has chance %g, the one below %g, want %g between them", least, n, chance(least, n), chance(least-1, n), limit)
			}
		}
	}
	// With too few values no u is rare enough: 2 of C(9,5) = 126 orders, and of C(18,5) =
	// 8568 and C(19,5) = 11628.
	got := [...]int{worseU[4], improvedU[13], improvedU[14]}
	if want := [...]int{21, 66, 70}; got != want {
		t.Errorf("critical values of small references = %v, want %v", got, want)
	}
}

// TestTies checks that among equal values u is the least that any order of them gives, and
// that over all arrangements the test finds something at most as often as its limit.
func TestTies(t *testing.T) {
	for _, pool := range [][]int64{
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0, 5, 5, 5, 5, 5},
		{0, 0, 0, 0, 0, 1, 1, 2, 3, 3, 3, 4, 4, 4, 5},
		{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8},
	} {
		n := len(pool) - MaxSample
		all, found, lower := 0, 0, 0
		choices(len(pool), func(chosen uint32) {
			values, others := parted(pool, chosen)
			// The order of equal values that is the worst for the values: after the others.
			least := 0
			for i := range pool {
				if chosen>>i&1 == 0 {
					continue
				}
				for j := range i {
					if chosen>>j&1 == 0 && pool[j] < pool[i] {
						least++
					}
				}
			}
			if u := countLarger(values, others); u != least {
				t.Fatalf("%v against %v: u = %d, want %d", values, others, u, least)
			}
			mirrored := slices.Clone(others)
			negative := slices.Clone(values)
			for i := range mirrored {
				mirrored[i] = -mirrored[i]
			}
			slices.Reverse(mirrored)
			for i := range negative {
				negative[i] = -negative[i]
			}
			if got, want := countSmaller(values, others), countLarger(negative, mirrored); got != want {
				t.Fatalf("%v against %v: u of smaller values = %d, want %d, as mirrored", values, others, got, want)
			}
			all++
			if countLarger(values, others) >= worseU[n] {
				found++
			}
			if countSmaller(values, others) >= worseU[n] {
				lower++
			}
		})
		// One side of a two-sided test at 1%.
		if limit := float64(all) * 0.005; float64(found) > limit || float64(lower) > limit {
			t.Errorf("%v: %d and %d of %d arrangements found, want at most one in 200", pool, found, lower, all)
		}
	}
}

func TestChoices(t *testing.T) {
	n := 0
	choices(9, func(chosen uint32) {
		if bits.OnesCount32(chosen) != MaxSample {
			t.Fatalf("chosen = %b, want %d bits", chosen, MaxSample)
		}
		n++
	})
	if n != 126 {
		t.Errorf("%d choices of 5 of 9, want 126", n)
	}
}
