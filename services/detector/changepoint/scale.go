package changepoint

import "math"

// Scale describes a kind of values: from which difference on a value is worse, and how much
// values vary. Its methods compare doubled values with doubled medians, which are whole
// numbers.
type Scale struct {
	// Factors reports whether values vary by factors, as times do: twice as long is as far
	// out as half as long. Otherwise they vary by differences.
	Factors bool
	// A value is worse if it is more than Percent larger, and by at least Least / 2 units.
	Percent, Least int64
	// Calm is the least variation that is assumed, because few values can be alike by
	// chance: in percent with Factors, otherwise in half units.
	Calm int64
}

// Max is the largest value, in units: with it no product overflows, and every
// doubled value is exact as a float64.
const Max = 1e13

// isWorse reports whether a doubled value is worse than a doubled median.
func (sc *Scale) isWorse(value, median int64) bool {
	return value-median >= sc.Least && 100*(value-median) > sc.Percent*median
}

// isHalfWorse reports whether a doubled value exceeds the doubled median by half as much as
// a worse one.
func (sc *Scale) isHalfWorse(value, median int64) bool {
	return 2*(value-median) >= sc.Least && 200*(value-median) > sc.Percent*median
}

// canBeLarge reports whether a doubled value is large enough for past.isLarge, which is more
// expensive to check.
func (sc *Scale) canBeLarge(value, median int64) bool {
	return sc.isWorse(value, median) && 10*value > 13*median
}

// exceedsAll reports whether a doubled value exceeds all of a base by enough for
// past.isAlone.
func (sc *Scale) exceedsAll(value int64, b *base) bool {
	largest := 2 * b.sorted[b.n-1]
	return value > largest && (!sc.Factors || 10*value > 13*largest)
}

// base has the values to compare with, sorted.
type base struct {
	sorted [MaxReference]int64
	n      int
	median int64 // doubled
}

func (b *base) sort() {
	sort(b.sorted[:b.n])
	b.median = b.sorted[(b.n-1)/2] + b.sorted[b.n/2]
}

// exceedsDeviations reports whether a doubled value exceeds the median by more than so many
// median deviations. With Factors the limit is a power of the median ratio, which equals
// the deviation of logarithms without computing any.
func (sc *Scale) exceedsDeviations(value int64, b *base, deviations int) bool {
	if !sc.Factors {
		return value-b.median > int64(deviations)*sc.difference(b)
	}
	// Only products of numbers that are exact or rounded once: no processor may fuse them,
	// so all get the same result.
	limit, ratio := float64(b.median), sc.ratio(b)
	for range deviations {
		limit *= ratio
	}
	return b.median == 0 || float64(value) > limit
}

// difference returns the median absolute deviation, doubled; of an even number of them the
// larger one.
func (sc *Scale) difference(b *base) int64 {
	var all [MaxReference]int64
	for i, v := range b.sorted[:b.n] {
		all[i] = max(2*v-b.median, b.median-2*v)
	}
	sort(all[:b.n])
	return max(all[b.n/2], sc.Calm)
}

// ratio returns the median of the ratios between each value and the median, at least 1; of
// an even number the larger one.
func (sc *Scale) ratio(b *base) float64 {
	var all [MaxReference]float64
	median := float64(b.median)
	for i, v := range b.sorted[:b.n] {
		value := float64(2 * v)
		switch {
		case 2*v == b.median:
			all[i] = 1
		case 2*v > b.median:
			all[i] = value / median
		default:
			all[i] = median / value
		}
		all[i] = min(all[i], math.MaxFloat64) // the ratio to 0 is infinite
	}
	sort(all[:b.n])
	return max(all[b.n/2], 1+float64(sc.Calm)/100)
}

// sort sorts few values, by insertion, which is faster than a general sort.
func sort[T int64 | float64](values []T) {
	for i := 1; i < len(values); i++ {
		v := values[i]
		at := i
		for ; at > 0 && values[at-1] > v; at-- {
			values[at] = values[at-1]
		}
		values[at] = v
	}
}
