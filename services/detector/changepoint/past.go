package changepoint

import (
	"math"
	"slices"
)

// The reference is too short to show some usual patterns: two alternating levels, values far
// out now and then, or values that are like the one before them. So a series keeps older
// values as well, and a rise has to stand out from all of them.
const (
	// maxOlder is how many values older than the reference are kept.
	maxOlder = 44
	maxPast  = maxOlder + MaxReference + maxNewest
	// minPast is the least number of values that can show several levels, and reliablePast
	// the least that shows them reliably.
	minPast, reliablePast = 20, 40
)

// past is all values of a series, prepared for a test of the newest ones.
type past struct {
	sc *Scale
	// values are on a scale where only differences count, the oldest first: n of the past,
	// followed by the newest ones, which are tested.
	values    [maxPast]float64
	n, tested int
	// levels are the medians of the usual levels, the lowest first, and spreads their
	// median deviations. Most series have one.
	levels, spreads [mostLevels]float64
	nlevels         int
	// correlation is the part of the deviation of a value that the next one has, too, and
	// noise the standard deviation of the rest.
	correlation, noise float64
}

// loadPast prepares the past for a test of the k newest values.
func (s *Series) loadPast(sc *Scale, p *past, k int) {
	*p = past{sc: sc, tested: k}
	add := func(v float64) {
		p.values[p.n] = sc.coordinate(v)
		p.n++
	}
	for _, v := range s.older[:s.nold] {
		add(float64(v))
	}
	for _, v := range s.reference[:s.nref] {
		add(float64(v))
	}
	between := max(int(s.nnew)-max(k, int(s.suspects)), 0)
	for _, v := range s.newest[:between] {
		add(float64(v))
	}
	p.findLevels()
	p.estimateCorrelation(float64(s.correlation)/100, float64(s.noise))
	for i, v := range s.newestValues(k) {
		p.values[p.n+i] = sc.coordinate(float64(v))
	}
}

// findLevels finds the usual levels by splitting groups that are apart.
func (p *past) findLevels() {
	var all [maxPast]float64
	sorted := all[:copy(all[:], p.values[:p.n])]
	slices.Sort(sorted)
	for len(sorted) > 0 {
		group := sorted
		for p.nlevels < mostLevels-1 { // the last group may have several
			at := p.split(group)
			if at == 0 {
				break
			}
			group = group[:at]
		}
		p.levels[p.nlevels] = middle(group)
		p.spreads[p.nlevels] = p.deviation(group, p.levels[p.nlevels])
		p.nlevels++
		sorted = sorted[len(group):]
	}
}

// split returns where sorted values split into two groups, or 0 if they do not.
func (p *past) split(sorted []float64) int {
	least, n := max(confirmedMin, p.n/8), float64(len(sorted))
	if len(sorted) < minPast || 2*least > len(sorted) {
		return 0
	}
	total := 0.0
	for _, v := range sorted {
		total += v
	}
	// Otsu: the variance between the groups is the largest.
	best, at, sum := -1.0, 0, 0.0
	for i, v := range sorted[:len(sorted)-1] {
		sum += v
		below := float64(i + 1)
		between := sum/below - (total-sum)/(n-below)
		if score := float64(between*between) * float64(below*(n-below)); score > best {
			best, at = score, i+1
		}
	}
	if at < least || len(sorted)-at < least {
		return 0
	}
	low, high := middle(sorted[:at]), middle(sorted[at:])
	third, between := (high-low)/3, 0
	for _, v := range sorted {
		if v > low+third && v < high-third {
			between++
		}
	}
	if betweenOneIn*between > len(sorted) || high-low < minSeparation*(p.deviation(sorted[:at], low)+p.deviation(sorted[at:], high)) {
		return 0
	}
	return at
}

const (
	// mostLevels is how many usual levels are distinguished.
	mostLevels = 4
	// Two groups are levels of their own if their medians are minSeparation median deviations
	// of both apart, and at most one value in betweenOneIn lies between them.
	minSeparation, betweenOneIn = 2.5, 8
)

// offset returns a value relative to the nearest level.
func (p *past) offset(v float64) float64 {
	nearest := v - p.levels[0]
	for _, level := range p.levels[1:max(p.nlevels, 1)] {
		if d := v - level; math.Abs(d) < math.Abs(nearest) {
			nearest = d
		}
	}
	return nearest
}

// estimateCorrelation estimates how much values are like the one before them. It uses only
// their signs, which neither the distribution nor outliers affect.
func (p *past) estimateCorrelation(correlation, noise float64) {
	if noise > 0 && p.n < reliablePast {
		p.correlation, p.noise = correlation, noise
		return
	}
	same, pairs := 0, 0
	for i := 1; i < p.n; i++ {
		a, b := p.offset(p.values[i-1]), p.offset(p.values[i])
		if a == 0 || b == 0 {
			continue
		}
		pairs++
		if (a > 0) == (b > 0) {
			same++
		} else {
			same--
		}
	}
	if n := float64(pairs); pairs >= minPast && float64(same) > minSignDeviations*math.Sqrt(n) {
		p.correlation = sine(min(float64(same)/n+1/math.Sqrt(n), 1))
	}
	if p.n < minPast {
		p.correlation = unknownCorrelation
	}
	var all [maxPast]float64
	rest := all[:0]
	for i := 1; i < p.n; i++ {
		rest = append(rest, p.offset(p.values[i])-float64(p.correlation*p.offset(p.values[i-1])))
	}
	if len(rest) == 0 {
		p.noise = p.sc.calm()
		return
	}
	slices.Sort(rest)
	p.noise = deviations * max(p.deviation(rest, middle(rest)), p.sc.calm())
}

const (
	// minSignDeviations is how many standard deviations a correlation of signs must differ
	// from zero to count. It is then assumed to be one standard deviation larger, because too
	// small a correlation causes false findings.
	minSignDeviations = 2
	// unknownCorrelation is the assumed correlation of few values. From strongCorrelation on
	// a rise has to be strongExtra standard deviations larger, because one slow spell is
	// tested many times.
	unknownCorrelation, strongCorrelation, strongExtra = 0.8, 0.5, 0.4
	// deviations is how many median deviations a standard deviation of normal values is.
	deviations = 1.4826
)

// jump returns by how many standard deviations the newest values exceed the usual level,
// assuming that the level rose with the first of them: of correlated values the first shows
// most of the rise.
func (p *past) jump(limit float64) float64 {
	sum, weights, before := 0.0, 0.0, 0.0
	if p.n > 0 {
		before = p.offset(p.values[p.n-1])
	}
	for i, v := range p.values[p.n : p.n+p.tested] {
		weight := 1.0
		if i > 0 {
			weight = 1 - p.correlation
		}
		now := min(p.offset(v), limit)
		sum += float64(weight * (now - float64(p.correlation*before)))
		weights += float64(weight * weight)
		before = now
	}
	return sum / (p.noise * math.Sqrt(weights))
}

// deviation returns the median absolute deviation of values from one.
func (p *past) deviation(values []float64, from float64) float64 {
	var all [maxPast]float64
	for i, v := range values {
		all[i] = math.Abs(v - from)
	}
	slices.Sort(all[:len(values)])
	return max(middle(all[:len(values)]), p.sc.calm()/2)
}

func middle(sorted []float64) float64 {
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// coordinate returns a value on the scale of a past: with Factors its logarithm to base 2.
func (sc *Scale) coordinate(v float64) float64 {
	if !sc.Factors {
		return v
	}
	return log2(max(v, 1))
}

// calm returns the least variation of values on the scale of a past.
func (sc *Scale) calm() float64 {
	if sc.Factors {
		return log2(1 + float64(sc.Calm)/100)
	}
	return float64(sc.Calm) / 2
}

// log2 returns the logarithm of a positive number. Every product is rounded by itself, so
// that all processors get the same.
func log2(v float64) float64 {
	fraction, exponent := math.Frexp(v)
	t := (fraction - math.Sqrt2/2) / (fraction + math.Sqrt2/2)
	square := float64(t * t)
	series := 1.0 / 9
	for _, term := range [...]float64{1.0 / 7, 1.0 / 5, 1.0 / 3, 1} {
		series = float64(series*square) + term
	}
	return float64(exponent) - 0.5 + float64(2*math.Log2E*t*series)
}

// sine returns sin(x * pi/2) for x from 0 to 1: the correlation of normal values whose
// signs agree by x.
func sine(x float64) float64 {
	x *= math.Pi / 2
	square := float64(x * x)
	series := -1.0 / 5040
	for _, term := range [...]float64{1.0 / 120, -1.0 / 6, 1} {
		series = float64(series*square) + term
	}
	return x * series
}

// The figures that decide whether a rise stands out from the past.
const (
	// The least size, in standard deviations, of a rise or a fall that the ranks or the
	// deviations of the reference show.
	confirmedRise, probableRise, fellRise = 2.5, 2.5, 3
	// A rise that they do not show must be so many times the highest usual level, and jump by
	// so many standard deviations, where no value counts for more than jumpCap.
	confirmedTimes, confirmedJump = 1.5, 2.2
	fourTimes, fourJump           = 1.5, 2.2
	threeTimes, threeJump         = 1.9, 3
	jumpCap                       = 2.5
	// At most one in rareIn values of the past may be as large as a rise, and one in
	// veryRareIn if nothing else shows the rise.
	rareIn, veryRareIn = 8, 20
	// A Single is aloneDeviations median deviations over the highest usual level, and
	// aloneTimes the largest value of the past.
	aloneDeviations, aloneTimes = 6, 1.3
	// worseTimes is how many times the lowest level a worse value is, as for Scale.
	worseTimes = 1.2
	// clearTimes is how many times the nearest of several usual levels a rise is at least,
	// because each level is known from few values.
	clearTimes = 1.14
)

// risesBy reports whether the newest values lie so many standard deviations over the usual
// level, or more of them if the values are strongly correlated.
func (p *past) risesBy(deviations float64) bool {
	if p.correlation > strongCorrelation {
		deviations += strongExtra
	}
	return p.jump(math.MaxFloat64) >= deviations
}

// isClearOfLevels reports whether a doubled median of the newest values is clearly over the
// nearest of several usual levels.
func (p *past) isClearOfLevels(double int64) bool {
	return !p.sc.Factors || p.nlevels < 2 || p.offset(p.coordinate(double)) > log2(clearTimes)
}

// isLarge reports whether a doubled median of the newest values is so many times the highest
// usual level, and they lie so many standard deviations over it.
func (p *past) isLarge(double int64, times, deviations float64) bool {
	return p.sc.Factors && p.n >= reliablePast && p.coordinate(double) > p.levels[p.nlevels-1]+log2(times) && p.jump(jumpCap*p.noise) >= deviations
}

// isOverLowestLevel reports whether a doubled value is worse than the lowest of several
// levels.
func (p *past) isOverLowestLevel(double int64) bool {
	return p.sc.Factors && p.nlevels > 1 && p.coordinate(double) > p.levels[0]+log2(worseTimes)
}

// isRare reports whether at most one in so many values of the past was as large as a doubled
// one.
func (p *past) isRare(double int64, in int) bool {
	limit, larger := p.coordinate(double), 0
	for _, v := range p.values[:p.n] {
		if v >= limit {
			larger++
		}
	}
	return larger <= max(1, p.n/in)
}

// isAlone reports whether the newest value lies far over all values of the past.
func (p *past) isAlone() bool {
	v, top := p.values[p.n], p.nlevels-1
	if v-p.levels[top] <= aloneDeviations*max(p.spreads[top], p.sc.calm()) {
		return false
	}
	old := p.values[:p.n]
	if p.correlation == 0 { // the values just before can belong to the same rise
		old = old[:max(p.n-MaxSample+1, 0)]
	}
	return !p.sc.Factors || slices.Max(old) < v-log2(aloneTimes)
}

// coordinate returns a doubled value on the scale of a past.
func (p *past) coordinate(double int64) float64 { return p.sc.coordinate(float64(double) / 2) }
