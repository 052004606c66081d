package changepoint

import (
	"math"
	"slices"
)

// The reference is too short to show what else is usual: two alternating levels, values far
// out now and then, or values that are like the one before them. So a series remembers
// older values as well, and a rise has to stand out from all of them.
const (
	// older is how many values older than the reference are remembered.
	older = 44
	most  = older + Reference + held
	// fewPast is how many values are too few to show it.
	fewPast = 20
	// manyPast is how many show it reliably.
	manyPast = 40
)

// past is what a series remembers, prepared for a test of its newest values.
type past struct {
	sc *Scale
	// values are on a scale where only differences count, the oldest first, followed by the
	// newest, whose number is are.
	values [most]float64
	n, are int
	// levels are the medians of the usual levels, the lowest first, and spreads their
	// median deviations. Most series have one.
	levels, spreads [mostLevels]float64
	nlevels         int
	// kept is the part of its deviation that a value passes on to the next one, and noise
	// the standard deviation of the rest.
	kept, noise float64
}

// loadPast prepares the past for a test of the k newest values.
func (s *Series) loadPast(sc *Scale, p *past, k int) {
	*p = past{sc: sc, are: k}
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
	p.chain(float64(s.kept)/100, float64(s.noise))
	for i, v := range s.last(k) {
		p.values[p.n+i] = sc.coordinate(float64(v))
	}
}

// findLevels finds the usual levels by splitting groups that are apart.
func (p *past) findLevels() {
	var all [most]float64
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
	least, n := max(confirmedOf, p.n/8), float64(len(sorted))
	if len(sorted) < fewPast || 2*least > len(sorted) {
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
	if hardly*between > len(sorted) || high-low < apartBy*(p.deviation(sorted[:at], low)+p.deviation(sorted[at:], high)) {
		return 0
	}
	return at
}

const (
	// mostLevels is how many usual levels are distinguished.
	mostLevels = 4
	// Two groups are levels of their own if their medians are apart by so many median
	// deviations of both, and at most one value in hardly lies between them.
	apartBy, hardly = 2.5, 8
)

// own returns a value relative to the nearest level.
func (p *past) own(v float64) float64 {
	nearest := v - p.levels[0]
	for _, level := range p.levels[1:max(p.nlevels, 1)] {
		if d := v - level; math.Abs(d) < math.Abs(nearest) {
			nearest = d
		}
	}
	return nearest
}

// chain estimates how much values are like the one before them: by their signs, which
// neither their distribution nor values far out affect.
func (p *past) chain(kept, noise float64) {
	if noise > 0 && p.n < manyPast {
		p.kept, p.noise = kept, noise
		return
	}
	same, pairs := 0, 0
	for i := 1; i < p.n; i++ {
		a, b := p.own(p.values[i-1]), p.own(p.values[i])
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
	if n := float64(pairs); pairs >= fewPast && float64(same) > chainSure*math.Sqrt(n) {
		p.kept = sine(min(float64(same)/n+1/math.Sqrt(n), 1))
	}
	if p.n < fewPast {
		p.kept = chainUnknown
	}
	var all [most]float64
	rest := all[:0]
	for i := 1; i < p.n; i++ {
		rest = append(rest, p.own(p.values[i])-float64(p.kept*p.own(p.values[i-1])))
	}
	if len(rest) == 0 {
		p.noise = p.sc.calm()
		return
	}
	slices.Sort(rest)
	p.noise = deviations * max(p.deviation(rest, middle(rest)), p.sc.calm())
}

const (
	// chainSure is how many standard deviations a correlation of signs must differ from
	// zero to count. It is then taken to be one larger, because too small a correlation
	// causes false findings.
	chainSure = 2
	// chainUnknown is the assumed correlation of few values. From chainMuch on a rise has
	// to be chainMore standard deviations larger, as it is looked for many times in one
	// slow spell.
	chainUnknown, chainMuch, chainMore = 0.8, 0.5, 0.4
	// deviations is how many median deviations a standard deviation of normal values is.
	deviations = 1.4826
)

// jump returns by how many standard deviations the newest values exceed the usual level, as
// if all had risen at the first of them: of values that are like the one before, most of
// that is in the first.
func (p *past) jump(limit float64) float64 {
	sum, weights, before := 0.0, 0.0, 0.0
	if p.n > 0 {
		before = p.own(p.values[p.n-1])
	}
	for i, v := range p.values[p.n : p.n+p.are] {
		weight := 1.0
		if i > 0 {
			weight = 1 - p.kept
		}
		now := min(p.own(v), limit)
		sum += float64(weight * (now - float64(p.kept*before)))
		weights += float64(weight * weight)
		before = now
	}
	return sum / (p.noise * math.Sqrt(weights))
}

// deviation returns the median absolute deviation of values from one.
func (p *past) deviation(values []float64, from float64) float64 {
	var all [most]float64
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
	// A rise that they do not show is so many times the highest usual level, and so many
	// standard deviations over it, where no value counts for more than capped.
	confirmedLarge, confirmedSure = 1.5, 2.2
	fourLarge, fourSure           = 1.5, 2.2
	threeLarge, threeSure         = 1.9, 3
	capped                        = 2.5
	// At most one in fewOf values of the past may be as large, in hardlyOf if nothing else
	// shows the rise.
	fewOf, hardlyOf = 8, 20
	// A Single is so many median deviations over the highest usual level, and aloneTimes
	// the largest value of the past.
	aloneOut, aloneTimes = 6, 1.3
	// overTimes is how many times larger is worse, as for Scale.
	overTimes = 1.2
	// offTimes is how many times the nearest of several usual levels a rise is at least,
	// because few values show each of them.
	offTimes = 1.14
)

// rises reports whether the newest values lie so many standard deviations over the usual
// level.
func (p *past) rises(deviations float64) bool {
	if p.kept > chainMuch {
		deviations += chainMore
	}
	return p.jump(math.MaxFloat64) >= deviations
}

// off reports whether a doubled median of the newest values is off all of several usual
// levels.
func (p *past) off(double int64) bool {
	return !p.sc.Factors || p.nlevels < 2 || p.own(p.at(double)) > log2(offTimes)
}

// large reports whether a doubled median of the newest values is so many times the highest
// usual level, and they lie so many standard deviations over it.
func (p *past) large(double int64, times, deviations float64) bool {
	return p.sc.Factors && p.n >= manyPast && p.at(double) > p.levels[p.nlevels-1]+log2(times) && p.jump(capped*p.noise) >= deviations
}

// over reports whether a doubled value is worse than the lowest of several levels.
func (p *past) over(double int64) bool {
	return p.sc.Factors && p.nlevels > 1 && p.at(double) > p.levels[0]+log2(overTimes)
}

// seldom reports whether at most one in so many values of the past was as large as a
// doubled one.
func (p *past) seldom(double int64, in int) bool {
	limit, larger := p.at(double), 0
	for _, v := range p.values[:p.n] {
		if v >= limit {
			larger++
		}
	}
	return larger <= max(1, p.n/in)
}

// alone reports whether the newest value lies far over all that is usual.
func (p *past) alone() bool {
	v, top := p.values[p.n], p.nlevels-1
	if v-p.levels[top] <= aloneOut*max(p.spreads[top], p.sc.calm()) {
		return false
	}
	old := p.values[:p.n]
	if p.kept == 0 { // what came just before can be of the same rise
		old = old[:max(p.n-Newest+1, 0)]
	}
	return !p.sc.Factors || slices.Max(old) < v-log2(aloneTimes)
}

// at returns a doubled value on the scale of a past.
func (p *past) at(double int64) float64 { return p.sc.coordinate(float64(double) / 2) }
