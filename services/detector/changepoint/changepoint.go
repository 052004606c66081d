// Package changepoint decides when the values of a series lie on a higher level than
// before, and how certain that is.
//
// It compares the newest values with up to 20 before them, the reference. One value far
// outside is only a hint (Single). The values that follow either confirm it, by the median
// of three (Probable) and of five (Confirmed), or it is withdrawn. A finding can begin with
// any of the three. Until it ends, its values stay out of the reference. They are added if
// the finding is withdrawn, dropped if the series recovers from a Confirmed, and become the
// reference if the level lasts for as many values as the caller allows.
//
// The tests bound the number of false alarms. A Single lies 9 median deviations out, which
// is 6 standard deviations of normal values. A Probable is three values that are all worse,
// whose median lies 4 median deviations out and over all but one of those before, as some
// series have two usual values. Confirmed are five values whose median is worse and whose
// ranks have a chance under 1% (Mann and Whitney, two-sided), however the values are
// distributed, if they are independent: slow spells are found, too. A lower level is the
// usual one at a chance under 1 in 5000, because after a mistake the next values would look
// worse. figures_test.go measures the result.
//
// Some series have two usual levels, or values that are like the one before them. So a rise
// is also compared with up to 44 older values (past.go): with the nearest usual level, and
// by what is new in each value. That memory also finds what the 20 do not show: one value
// over the highest of several levels, and a rise of half and more in values that vary much.
//
// The package knows no metric, page, alert or clock. Each value takes constant time and no
// memory.
package changepoint

import (
	"math"
	"slices"
)

const (
	// MaxReference is the largest number of values in the reference.
	MaxReference = 20
	// MaxSample is the largest number of newest values that are compared with the reference.
	MaxSample = 5
	// maxNewest is the largest number of values that are not in the reference yet. Of more,
	// the oldest go to the reference if nothing is found, and are dropped otherwise.
	maxNewest = 2 * MaxSample
)

// How far out values must lie, in median deviations of the values before them, and how many
// values before them are needed. Fewer values need a larger distance.
const (
	singleDeviations, singleMin           = 9, 20
	probableDeviations, probableMin       = 4, 10
	probableFewDeviations, probableFewMin = 8, 6
	confirmedMin                          = 5
)

const (
	// The number of values after a Single, and after a Probable, that may neither confirm it
	// nor return to the usual level. Then it is withdrawn.
	singlePatience   = 4
	probablePatience = 8
	// keptAfterConfirmed is how many of the values after a Confirmed are added to the past:
	// if the series recovers, that level can be a usual one.
	keptAfterConfirmed = 12
	// maxSince bounds the count of values since a confidence was reached.
	maxSince = 20
	// peakLifetime is the number of values after a withdrawn Single during which only a value
	// half as large again is another Single: such values may be usual now and then.
	peakLifetime = 500
)

// Confidence is how certain a higher level is.
type Confidence uint8

// The confidences, from the lowest.
const (
	None Confidence = iota
	Single
	Probable
	Confirmed
)

var names = [...]string{None: "", Single: "single", Probable: "probable", Confirmed: "confirmed"}

func (c Confidence) String() string { return names[c] }

// SampleSize returns how many of the newest values a confidence is the median of.
func (c Confidence) SampleSize() int {
	return [...]int{None: 0, Single: 1, Probable: 3, Confirmed: MaxSample}[c]
}

// Transition is the change of the finding that a value causes.
type Transition uint8

// The transitions.
const (
	// NoChange leaves the finding as it is.
	NoChange Transition = iota
	// Risen is a higher level, or a higher confidence in it.
	Risen
	// Withdrawn is a Single or a Probable that is not confirmed.
	Withdrawn
	// Recovered is the end of a Confirmed: the level is as before.
	Recovered
	// Settled is a Confirmed level that is the usual one from now on.
	Settled
	// Improved is a lower level that is the usual one from now on.
	Improved
)

// Verdict is the result of a value, with its figures.
type Verdict struct {
	Transition Transition
	// Confidence is that of the finding, or of the one that the transition ends.
	Confidence Confidence
	// Began reports whether there was no finding before.
	Began bool
	// Worse reports whether the level of a Confirmed has risen again.
	Worse bool
	// Level is the median, doubled, of the Sample newest values.
	Level  int64
	Sample int
	// Usual is the median, doubled, of the values before them, and Values their number.
	Usual  int64
	Values int
	// Chance is the probability of the ranks of a Confirmed if nothing had changed and values
	// were independent.
	Chance float64
}

// Series is one series of values. The zero value has none.
type Series struct {
	reference [MaxReference]int64 // the oldest first
	newest    [maxNewest]int64    // the oldest first, all newer than the reference
	older     [maxOlder]float32   // the oldest first, all older than the reference
	// nref, nnew and nold are the numbers of each.
	nref, nnew, nold uint8
	// correlation, in percent, and noise are those of the past (see past) before the last
	// resetReference. They are used while there are few values since; noise is 0 if there
	// was no reset.
	correlation uint8
	noise       float32

	found Confidence
	// suspects is the number of newest values that belong to the finding, since the number of
	// values after its confidence was reached, bounded by maxSince.
	suspects, since uint8
	// pending reports whether nothing is found, but the median of the five newest exceeds the
	// usual one by half of a rise. Then none of them goes into the reference yet.
	pending bool
	// level is the doubled median of the finding, u that of a Confirmed.
	level int64
	u     uint8

	// peak is the largest Single that was withdrawn, and peakLeft the number of values for
	// which it still counts.
	peak     int64
	peakLeft uint16
}

// Confidence returns the confidence of the current finding.
func (s *Series) Confidence() Confidence { return s.found }

// DefaultSettling is the number of values after which a level is usual, for callers without
// a number of their own.
const DefaultSettling = 20

// NeverSettle is a number of values after which no level becomes usual: more than are ever
// counted.
const NeverSettle = MaxSample + maxSince + 1

// Add adds the next value, from 0 to Max. A level that is Confirmed is the usual one once
// settling values lie on it.
func (s *Series) Add(sc *Scale, v int64, settling int) Verdict {
	s.push(v)
	var (
		b base
		a comparison
	)
	s.loadBase(&b, MaxSample)
	if confidence := s.findRise(sc, &b, &a); confidence != None {
		return s.startFinding(confidence, &a)
	}
	if s.found != None && b.n < MaxReference {
		s.loadBase(&b, int(s.suspects))
	}
	five := s.newestValues(MaxSample)
	switch s.found {
	case None:
		if len(five) == 0 || b.n < confirmedMin {
			return Verdict{}
		}
		median := doubledMedian(five)
		s.pending = sc.isHalfWorse(median, b.median)
		if sc.isWorse(b.median, median) && isClearlyLower(five, &b) && s.isFall(sc) {
			s.resetReference(sc, five)
			return Verdict{Transition: Improved, Level: median, Sample: MaxSample, Usual: b.median, Values: b.n}
		}
	case Single:
		if two := s.newestValues(2); s.since >= singlePatience || s.since >= 2 && (b.n == 0 || !sc.isWorse(2*slices.Max(two), b.median)) {
			s.rememberPeak(s.level / 2)
			return s.endFinding(Withdrawn, s.newestValues(int(s.since)), &b)
		}
	case Probable:
		if three := s.newestValues(Probable.SampleSize()); s.since >= probablePatience || s.isBack(three, &b) {
			return s.endFinding(Withdrawn, three, &b)
		}
	case Confirmed:
		// Half as much again as the Confirmed level is a finding, too.
		if three := s.newestValues(Probable.SampleSize()); int(s.since) >= len(three) && sc.isWorse(2*slices.Min(three), s.level) && 2*doubledMedian(three) >= 3*s.level {
			s.level, s.since = doubledMedian(three), 0
			return Verdict{
				Transition: Risen, Confidence: Confirmed, Worse: true, Level: s.level, Sample: len(three), Usual: b.median, Values: b.n,
				Chance: chance(int(s.u), b.n),
			}
		}
		if s.isBack(five, &b) {
			if s.since >= MaxSample { // long enough to be a second usual level
				for _, v := range s.newest[:max(int(s.nnew)-Probable.SampleSize(), 0)] {
					s.keepOlder(v)
				}
			}
			verdict := s.endFinding(Recovered, five, &b)
			// The newest three are as before; the others belong to the finding.
			s.nnew = uint8(copy(s.newest[:], s.newestValues(Probable.SampleSize())))
			return verdict
		}
		if MaxSample+int(s.since) >= settling {
			verdict := s.endFinding(Settled, five, &b)
			s.resetReference(sc, s.newest[:s.nnew])
			return verdict
		}
	}
	return Verdict{}
}

// Current returns the verdict on the current finding, without a transition.
func (s *Series) Current() Verdict {
	if s.found == None {
		return Verdict{}
	}
	var b base
	s.loadBase(&b, int(s.suspects))
	v := Verdict{Confidence: s.found, Level: s.level, Sample: s.found.SampleSize(), Usual: b.median, Values: b.n}
	if s.found == Confirmed {
		v.Chance = chance(int(s.u), b.n)
	}
	return v
}

// Usual returns the median, doubled, of the values that do not belong to the finding, and
// their number: at most [MaxReference].
func (s *Series) Usual() (median int64, values int) {
	var b base
	s.loadBase(&b, int(s.suspects))
	return b.median, b.n
}

// push makes v the newest value. Values older than the newest five that do not belong to the
// finding go into the reference, the oldest first.
func (s *Series) push(v int64) {
	if s.peakLeft > 0 {
		if s.peakLeft--; s.peakLeft == 0 {
			s.peak = 0
		}
	}
	for s.nnew == maxNewest || s.nnew >= MaxSample && !s.pending && s.nnew > s.suspects {
		if s.nnew > s.suspects {
			s.addReference(s.newest[0])
		} else {
			if s.found == Confirmed && s.since <= keptAfterConfirmed {
				s.keepOlder(s.newest[0])
			}
			s.suspects--
		}
		s.nnew = uint8(copy(s.newest[:], s.newest[1:s.nnew]))
	}
	s.newest[s.nnew] = v
	s.nnew++
	if s.found != None {
		s.suspects++
		s.since = min(s.since+1, maxSince)
	}
}

// addReference adds a value to the reference, whose oldest is removed.
func (s *Series) addReference(v int64) {
	if s.nref == MaxReference {
		s.keepOlder(s.reference[0])
		s.nref = uint8(copy(s.reference[:], s.reference[1:]))
	}
	s.reference[s.nref] = v
	s.nref++
}

// keepOlder adds a value to the past before the reference.
func (s *Series) keepOlder(v int64) {
	if s.nold == maxOlder {
		s.nold = uint8(copy(s.older[:], s.older[1:]))
	}
	s.older[s.nold] = float32(v)
	s.nold++
}

// newestValues returns the k newest values, or none if there are fewer.
func (s *Series) newestValues(k int) []int64 {
	if int(s.nnew) < k {
		return nil
	}
	return s.newest[int(s.nnew)-k : s.nnew]
}

// loadBase fills b with the values that the k newest are compared with: the reference, and
// the values after it that do not belong to the finding, if the reference is not full.
func (s *Series) loadBase(b *base, k int) {
	b.n = copy(b.sorted[:], s.reference[:s.nref])
	if between := int(s.nnew) - max(k, int(s.suspects)); between > 0 && !s.pending {
		b.n += copy(b.sorted[b.n:], s.newest[:between])
	}
	if b.n > 0 {
		b.sort()
	}
}

// comparison is a risen level: its doubled median, and the values that it is compared with.
type comparison struct {
	level int64
	base
}

// findRise returns the highest confidence that the newest values give, if it is higher than
// that of the finding, and fills a with the comparison. b has the values that the five
// newest are compared with.
func (s *Series) findRise(sc *Scale, b *base, a *comparison) Confidence {
	var p past
	if five := s.newestValues(MaxSample); len(five) > 0 && b.n >= confirmedMin && s.found < Confirmed {
		if median := doubledMedian(five); sc.isHalfWorse(median, b.median) {
			if u := countLarger(five, b.sorted[:b.n]); u >= worseU[b.n] || s.found == None && u >= likelyU[b.n] && sc.canBeLarge(median, b.median) {
				s.loadPast(sc, &p, MaxSample)
				if (sc.isWorse(median, b.median) || p.isOverLowestLevel(median)) &&
					(u >= worseU[b.n] && p.risesBy(confirmedRise) && p.isClearOfLevels(median) || s.found == None && p.isLarge(median, confirmedTimes, confirmedJump)) {
					s.u, a.level, a.base = uint8(u), median, *b
					return Confirmed
				}
			}
		}
	}
	newest := 2 * s.newest[s.nnew-1]
	if s.found >= Probable || b.n > 0 && !sc.isWorse(newest, b.median) {
		return None // the most frequent case: not even the newest value is worse
	}
	if three := s.newestValues(Probable.SampleSize()); len(three) > 0 {
		s.compare(a, b, three)
		if sc.isWorse(2*slices.Min(three), a.median) && a.n >= probableFewMin {
			out := probableDeviations
			if a.n < probableMin {
				out = probableFewDeviations
			}
			if far := sc.exceedsDeviations(a.level, &a.base, out); far || sc.canBeLarge(a.level, a.median) {
				s.loadPast(sc, &p, Probable.SampleSize())
				if far && p.isRare(a.level, rareIn) && p.risesBy(probableRise) && p.isClearOfLevels(a.level) ||
					p.isLarge(a.level, threeTimes, threeJump) && p.isRare(a.level, veryRareIn) {
					return Probable
				}
			}
		}
	}
	if four := s.newestValues(4); len(four) > 0 && b.n >= probableMin {
		if median := doubledMedian(four); sc.canBeLarge(median, b.median) && threeAreWorse(sc, four, b.median) {
			if s.loadPast(sc, &p, len(four)); p.isLarge(median, fourTimes, fourJump) && p.isRare(median, veryRareIn) {
				s.compare(a, b, s.newestValues(Probable.SampleSize()))
				return Probable
			}
		}
	}
	if s.found == None && newest > 3*s.peak { // half as large again; the peak is not doubled
		s.compare(a, b, s.newestValues(1))
		if a.n >= singleMin && sc.isWorse(newest, a.median) && sc.exceedsAll(newest, b) {
			if s.loadPast(sc, &p, 1); (p.nlevels > 1 || sc.exceedsDeviations(newest, &a.base, singleDeviations)) && p.isAlone() {
				return Single
			}
		}
	}
	return None
}

// compare fills a with the comparison of the newest values with those before them, which are
// b if b is full.
func (s *Series) compare(a *comparison, b *base, values []int64) {
	a.level = doubledMedian(values)
	if a.base = *b; b.n < MaxReference {
		s.loadBase(&a.base, len(values))
	}
}

// startFinding begins a finding, or raises its confidence.
func (s *Series) startFinding(confidence Confidence, a *comparison) Verdict {
	v := Verdict{Transition: Risen, Confidence: confidence, Began: s.found == None, Level: a.level, Sample: confidence.SampleSize(), Usual: a.median, Values: a.n}
	s.suspects = max(s.suspects, uint8(confidence.SampleSize()))
	if confidence == Confirmed || s.pending {
		s.suspects = s.nnew // the values that wait are on the new level, too
	}
	if confidence == Confirmed {
		v.Chance = chance(int(s.u), a.n)
	}
	s.found, s.level, s.since, s.pending = confidence, a.level, 0, false
	return v
}

// endFinding ends the finding by a transition that values show.
func (s *Series) endFinding(transition Transition, values []int64, b *base) Verdict {
	v := Verdict{Transition: transition, Confidence: s.found, Usual: b.median, Values: b.n, Sample: len(values)}
	if len(values) > 0 {
		v.Level = doubledMedian(values)
	}
	s.found, s.suspects, s.since, s.level, s.u = None, 0, 0, 0, 0
	return v
}

// resetReference makes values the reference and drops all others.
func (s *Series) resetReference(sc *Scale, values []int64) {
	var p past
	if s.loadPast(sc, &p, MaxSample); p.n >= reliablePast*3/4 {
		s.correlation, s.noise = uint8(100*p.correlation), float32(p.noise)
	}
	s.nref = uint8(copy(s.reference[:], values))
	s.nnew, s.nold, s.pending, s.peak, s.peakLeft = 0, 0, false, 0, 0
}

func (s *Series) rememberPeak(peak int64) { s.peak, s.peakLeft = max(s.peak, peak), peakLifetime }

// isBack reports whether the median of values is nearer to the usual one than to the
// finding's.
func (s *Series) isBack(values []int64, b *base) bool {
	return len(values) > 0 && 2*doubledMedian(values) < b.median+s.level
}

// isFall reports whether the five newest values are lower than every usual level.
func (s *Series) isFall(sc *Scale) bool {
	var p past
	s.loadPast(sc, &p, MaxSample)
	return (p.n >= reliablePast || p.n >= minPast && p.correlation == 0) && p.jump(math.MaxFloat64) <= -fellRise
}

// isClearlyLower reports whether the ranks show that five values are lower than the others,
// or whether they are lower than all of them while there are too few for that test.
func isClearlyLower(five []int64, b *base) bool {
	return countSmaller(five, b.sorted[:b.n]) >= min(improvedU[b.n], MaxSample*b.n)
}

// threeAreWorse reports whether at least three of four values are worse than a doubled one.
// The median of four is already high with two.
func threeAreWorse(sc *Scale, four []int64, than int64) bool {
	n := 0
	for _, v := range four {
		if sc.isWorse(2*v, than) {
			n++
		}
	}
	return n >= 3
}

// doubledMedian returns twice the median of up to five values, which is a whole number.
func doubledMedian(values []int64) int64 {
	var sorted [MaxSample]int64
	n := copy(sorted[:], values)
	sort(sorted[:n])
	return sorted[(n-1)/2] + sorted[n/2]
}
