// Package changepoint decides when the values of a series lie on a higher level than
// before, and how certain that is.
//
// It compares the newest values with up to 20 before them, the reference. One value far
// outside is only a hint (Single). The values that follow either confirm it, by the median
// of three (Probable) and of five (Confirmed), or it is withdrawn. A finding can begin with
// any of the three. Values under suspicion stay out of the reference until it is decided:
// those of what is withdrawn count like others then, those of a Confirmed are dropped if
// the series comes back, and a level that stays for as long as the caller says becomes the
// reference. Until then the reference is frozen.
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
	// Reference is the most values that the newest are compared with.
	Reference = 20
	// Newest is the most of the newest values that are compared with them.
	Newest = 5
	// held is the most values that wait to be decided. Of more, the oldest go to the
	// reference while nothing is found, and are dropped otherwise.
	held = 2 * Newest
)

// How far out values must lie, in median deviations of the values before, and how many of
// these are needed. Few values tell less of how they vary.
const (
	singleOut, singleOf         = 9, 20
	probableOut, probableOf     = 4, 10
	probableFewOut, probableFew = 8, 6
	confirmedOf                 = 5
)

const (
	// The patience is how many values after a Single, and after a Probable, may neither
	// confirm it nor show that all is as before. Then it is withdrawn.
	singlePatience   = 4
	probablePatience = 8
	// reminded is how many values after a Confirmed are remembered when they leave: if the
	// series comes back, its level can be a usual one.
	reminded = 12
	// longest bounds the count of values since a confidence was reached.
	longest = 20
	// remembered is for how many values a withdrawn Single is remembered. Until then only a
	// value half as large again is another one: what is alone now and then is usual.
	remembered = 500
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
	return [...]int{None: 0, Single: 1, Probable: 3, Confirmed: Newest}[c]
}

// Event is the result of a value.
type Event uint8

// The events.
const (
	// Nothing has changed.
	Nothing Event = iota
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
	Event Event
	// Confidence is that of the finding, or of the one that an event ends.
	Confidence Confidence
	// Began reports whether nothing was found before.
	Began bool
	// Worse reports whether the level of a Confirmed has risen again.
	Worse bool
	// Level is the median, doubled, of the Sample newest values.
	Level  int64
	Sample int
	// Usual is the median, doubled, of the values before them, and Values their number.
	Usual  int64
	Values int
	// Chance is that of the ranks of a Confirmed if nothing had changed and values were
	// independent.
	Chance float64
}

// Series is one series of values. The zero value has none.
type Series struct {
	reference [Reference]int64 // the oldest first
	newest    [held]int64      // the oldest first, all newer than the reference
	older     [older]float32   // the oldest first, all older than the reference
	// nref, nnew and nold are the numbers of each.
	nref, nnew, nold uint8
	// kept, in percent, and noise are what was known of the past that was forgotten last
	// (see past), while the values since then are few; noise is 0 if nothing was.
	kept  uint8
	noise float32

	found Confidence
	// suspects is the number of newest values under suspicion, since the number of values
	// after the confidence was reached, bounded by longest.
	suspects, since uint8
	// slow reports whether the median of the five newest is nearly worse, though nothing is
	// found: so none of them goes into the reference yet.
	slow bool
	// level is the doubled median of the finding, u that of a Confirmed.
	level int64
	u     uint8

	// peak is the largest Single that was withdrawn, forget the number of values for which
	// it is still remembered.
	peak   int64
	forget uint16
}

// Confidence returns that of the finding.
func (s *Series) Confidence() Confidence { return s.found }

// Settling is the number of values after which a level is usual, if the caller has no
// reason for another one.
const Settling = 20

// Never is more values than are ever counted.
const Never = Newest + longest + 1

// Add adds the next value, from 0 to Max. A level that is Confirmed is the usual one once
// settling values lie on it.
func (s *Series) Add(sc *Scale, v int64, settling int) Verdict {
	s.push(v)
	var (
		b base
		a comparison
	)
	s.before(&b, Newest)
	if to := s.rise(sc, &b, &a); to != None {
		return s.risen(to, &a)
	}
	if s.found != None && b.n < Reference {
		s.before(&b, int(s.suspects))
	}
	five := s.last(Newest)
	switch s.found {
	case None:
		if len(five) == 0 || b.n < confirmedOf {
			return Verdict{}
		}
		median := double(five)
		s.slow = sc.nearly(median, b.median)
		if sc.over(b.median, median) && lower(five, &b) && s.fell(sc) {
			s.begin(sc, five)
			return Verdict{Event: Improved, Level: median, Sample: Newest, Usual: b.median, Values: b.n}
		}
	case Single:
		if two := s.last(2); s.since >= singlePatience || s.since >= 2 && (b.n == 0 || !sc.over(2*slices.Max(two), b.median)) {
			s.rememberPeak(s.level / 2)
			return s.end(Withdrawn, s.last(int(s.since)), &b)
		}
	case Probable:
		if three := s.last(Probable.SampleSize()); s.since >= probablePatience || s.isBack(three, &b) {
			return s.end(Withdrawn, three, &b)
		}
	case Confirmed:
		// Half as much again as before is a finding, too.
		if three := s.last(Probable.SampleSize()); int(s.since) >= len(three) && sc.over(2*slices.Min(three), s.level) && 2*double(three) >= 3*s.level {
			s.level, s.since = double(three), 0
			return Verdict{
				Event: Risen, Confidence: Confirmed, Worse: true, Level: s.level, Sample: len(three), Usual: b.median, Values: b.n,
				Chance: chance(int(s.u), b.n),
			}
		}
		if s.isBack(five, &b) {
			if s.since >= Newest { // not a short one: it may be usual by turns
				for _, v := range s.newest[:max(int(s.nnew)-Probable.SampleSize(), 0)] {
					s.keepOlder(v)
				}
			}
			verdict := s.end(Recovered, five, &b)
			// Most of them are as before; the others belong to what is over.
			s.nnew = uint8(copy(s.newest[:], s.last(Probable.SampleSize())))
			return verdict
		}
		if Newest+int(s.since) >= settling {
			verdict := s.end(Settled, five, &b)
			s.begin(sc, s.newest[:s.nnew])
			return verdict
		}
	}
	return Verdict{}
}

// Now returns the verdict on the current finding.
func (s *Series) Now() Verdict {
	if s.found == None {
		return Verdict{}
	}
	var b base
	s.before(&b, int(s.suspects))
	v := Verdict{Confidence: s.found, Level: s.level, Sample: s.found.SampleSize(), Usual: b.median, Values: b.n}
	if s.found == Confirmed {
		v.Chance = chance(int(s.u), b.n)
	}
	return v
}

// Usual returns the median, doubled, of the values that are under no suspicion, and their
// number: at most Reference.
func (s *Series) Usual() (median int64, values int) {
	var b base
	s.before(&b, int(s.suspects))
	return b.median, b.n
}

// push makes v the newest value. Of those that are older than the newest five and under no
// suspicion the oldest go into the reference.
func (s *Series) push(v int64) {
	if s.forget > 0 {
		if s.forget--; s.forget == 0 {
			s.peak = 0
		}
	}
	for s.nnew == held || s.nnew >= Newest && !s.slow && s.nnew > s.suspects {
		if s.nnew > s.suspects {
			s.addReference(s.newest[0])
		} else {
			if s.found == Confirmed && s.since <= reminded {
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
		s.since = min(s.since+1, longest)
	}
}

// addReference adds a value to the reference, whose oldest is removed.
func (s *Series) addReference(v int64) {
	if s.nref == Reference {
		s.keepOlder(s.reference[0])
		s.nref = uint8(copy(s.reference[:], s.reference[1:]))
	}
	s.reference[s.nref] = v
	s.nref++
}

// keepOlder adds a value to those that are older than the reference.
func (s *Series) keepOlder(v int64) {
	if s.nold == older {
		s.nold = uint8(copy(s.older[:], s.older[1:]))
	}
	s.older[s.nold] = float32(v)
	s.nold++
}

// last returns the k newest values, or none if there are fewer.
func (s *Series) last(k int) []int64 {
	if int(s.nnew) < k {
		return nil
	}
	return s.newest[int(s.nnew)-k : s.nnew]
}

// before fills in what the k newest values are compared with: the reference, and while that
// is not full the values between, if they are under no suspicion.
func (s *Series) before(b *base, k int) {
	b.n = copy(b.sorted[:], s.reference[:s.nref])
	if between := int(s.nnew) - max(k, int(s.suspects)); between > 0 && !s.slow {
		b.n += copy(b.sorted[b.n:], s.newest[:between])
	}
	if b.n > 0 {
		b.sort()
	}
}

// comparison is a risen level: its median, doubled, and what it is compared with.
type comparison struct {
	level int64
	base
}

// rise returns the highest confidence that the newest values give, if it is higher than
// that of the finding, with the comparison in a. b is what the five newest are compared
// with.
func (s *Series) rise(sc *Scale, b *base, a *comparison) Confidence {
	var p past
	if five := s.last(Newest); len(five) > 0 && b.n >= confirmedOf && s.found < Confirmed {
		if median := double(five); sc.nearly(median, b.median) {
			if u := larger(five, b.sorted[:b.n]); u >= worse[b.n] || s.found == None && u >= likely[b.n] && sc.perhaps(median, b.median) {
				s.loadPast(sc, &p, Newest)
				if (sc.over(median, b.median) || p.over(median)) &&
					(u >= worse[b.n] && p.rises(confirmedRise) && p.off(median) || s.found == None && p.large(median, confirmedLarge, confirmedSure)) {
					s.u, a.level, a.base = uint8(u), median, *b
					return Confirmed
				}
			}
		}
	}
	newest := 2 * s.newest[s.nnew-1]
	if s.found >= Probable || b.n > 0 && !sc.over(newest, b.median) {
		return None // most often: not even this one is worse
	}
	if three := s.last(Probable.SampleSize()); len(three) > 0 {
		s.compare(a, b, three)
		if sc.over(2*slices.Min(three), a.median) && a.n >= probableFew {
			out := probableOut
			if a.n < probableOf {
				out = probableFewOut
			}
			if far := sc.beyond(a.level, &a.base, out); far || sc.perhaps(a.level, a.median) {
				s.loadPast(sc, &p, Probable.SampleSize())
				if far && p.seldom(a.level, fewOf) && p.rises(probableRise) && p.off(a.level) ||
					p.large(a.level, threeLarge, threeSure) && p.seldom(a.level, hardlyOf) {
					return Probable
				}
			}
		}
	}
	if four := s.last(4); len(four) > 0 && b.n >= probableOf {
		if median := double(four); sc.perhaps(median, b.median) && threeOver(sc, four, b.median) {
			if s.loadPast(sc, &p, len(four)); p.large(median, fourLarge, fourSure) && p.seldom(median, hardlyOf) {
				s.compare(a, b, s.last(Probable.SampleSize()))
				return Probable
			}
		}
	}
	if s.found == None && newest > 3*s.peak { // the peak is not doubled: half as large again
		s.compare(a, b, s.last(1))
		if a.n >= singleOf && sc.over(newest, a.median) && sc.tops(newest, b) {
			if s.loadPast(sc, &p, 1); (p.nlevels > 1 || sc.beyond(newest, &a.base, singleOut)) && p.alone() {
				return Single
			}
		}
	}
	return None
}

// compare compares the newest values with those before them, which are b if b is full.
func (s *Series) compare(a *comparison, b *base, values []int64) {
	a.level = double(values)
	if a.base = *b; b.n < Reference {
		s.before(&a.base, len(values))
	}
}

// risen notes a finding.
func (s *Series) risen(to Confidence, a *comparison) Verdict {
	v := Verdict{Event: Risen, Confidence: to, Began: s.found == None, Level: a.level, Sample: to.SampleSize(), Usual: a.median, Values: a.n}
	s.suspects = max(s.suspects, uint8(to.SampleSize()))
	if to == Confirmed || s.slow {
		s.suspects = s.nnew // whatever waited did so because it looked the same
	}
	if to == Confirmed {
		v.Chance = chance(int(s.u), a.n)
	}
	s.found, s.level, s.since, s.slow = to, a.level, 0, false
	return v
}

// end ends the finding, as values show.
func (s *Series) end(how Event, values []int64, b *base) Verdict {
	v := Verdict{Event: how, Confidence: s.found, Usual: b.median, Values: b.n, Sample: len(values)}
	if len(values) > 0 {
		v.Level = double(values)
	}
	s.found, s.suspects, s.since, s.level, s.u = None, 0, 0, 0, 0
	return v
}

// begin makes values the reference, and forgets all others.
func (s *Series) begin(sc *Scale, values []int64) {
	var p past
	if s.loadPast(sc, &p, Newest); p.n >= manyPast*3/4 {
		s.kept, s.noise = uint8(100*p.kept), float32(p.noise)
	}
	s.nref = uint8(copy(s.reference[:], values))
	s.nnew, s.nold, s.slow, s.peak, s.forget = 0, 0, false, 0, 0
}

func (s *Series) rememberPeak(peak int64) { s.peak, s.forget = max(s.peak, peak), remembered }

// isBack reports whether the median of values is nearer to the usual one than to the
// finding's.
func (s *Series) isBack(values []int64, b *base) bool {
	return len(values) > 0 && 2*double(values) < b.median+s.level
}

// fell reports whether the five newest values are lower than all that is usual.
func (s *Series) fell(sc *Scale) bool {
	var p past
	s.loadPast(sc, &p, Newest)
	return (p.n >= manyPast || p.n >= fewPast && p.kept == 0) && p.jump(math.MaxFloat64) <= -fellRise
}

// lower reports whether five values are certainly under the others, or under all of them
// while there are too few for certainty.
func lower(five []int64, b *base) bool {
	return smaller(five, b.sorted[:b.n]) >= min(better[b.n], Newest*b.n)
}

// threeOver reports whether at least three values are worse than a doubled one. The median
// of four is high with two of them.
func threeOver(sc *Scale, four []int64, than int64) bool {
	n := 0
	for _, v := range four {
		if sc.over(2*v, than) {
			n++
		}
	}
	return n >= 3
}

// double returns twice the median of up to five values.
func double(values []int64) int64 {
	var sorted [Newest]int64
	n := copy(sorted[:], values)
	sort(sorted[:n])
	return sorted[(n-1)/2] + sorted[n/2]
}
