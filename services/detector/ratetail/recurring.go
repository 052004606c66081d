package ratetail

import "math"

// Bursts that come by a schedule, such as those of a failing job, are learned from the
// stream itself. The beginnings and sizes of the last bursts without a schedule are stored.
// Three bursts at equal intervals make a schedule. From then on a burst that is due has a
// lower severity, while it lasts no longer than 60 s and is no larger than twice the usual
// size. A schedule whose bursts fail to come is dropped.
const (
	maxPast      = 4
	maxSchedules = 4
	maxSizes     = 8
	// minPeriod is the shortest period, in seconds: one burst must be over before the next.
	minPeriod = 3 * slots
	// maxGapDifference is how far two gaps of one period may differ, and maxLateness how
	// far a burst may be off its schedule, in seconds.
	maxGapDifference, maxLateness = 2, 4
	// maxMissed is how many missed bursts in a row a schedule survives.
	maxMissed = 5
	// A burst may have maxLarger times the usual size. It may last maxLonger times as long
	// as the longest one and moreLonger seconds more, but at most maxBurstSeconds.
	maxLarger             = 2
	maxLonger, moreLonger = 2, slots
	maxBurstSeconds       = 60
	// oftenBursts without a schedule within oftenSeconds are usual for the stream.
	oftenBursts, oftenSeconds = 3, 3600
)

// burst has the second in which a burst began, the most errors that it added to 10 s, and
// its length in seconds.
type burst struct{ from, size, length int64 }

// schedule is a schedule of bursts that recur.
type schedule struct {
	// first is the second in which the first burst began, last that of the last burst,
	// periods later, and due that in which the next one is due.
	first, last, periods, due int64
	// passed is how many bursts were due since the last, and missed how many of them did
	// not come.
	passed, missed int64
	// sizes has the newest n bursts, the newest first.
	sizes [maxSizes]burst
	n     int
}

func (s *schedule) add(b burst) {
	copy(s.sizes[1:], s.sizes[:])
	s.sizes[0] = b
	s.n = min(s.n+1, maxSizes)
}

func (s *schedule) bursts() []burst { return s.sizes[:s.n] }

// period returns the period in seconds.
func (s *schedule) period() float64 { return float64(s.last-s.first) / float64(s.periods) }

// catchUp advances due until a burst that begins at a second can be the one that is due,
// and returns by how many periods.
func (s *schedule) catchUp(to int64) (passed int64) {
	for s.due+maxLateness < to {
		n := max(int64(float64(to-maxLateness-s.due)/s.period()), 1)
		s.due += int64(math.Round(float64(n) * s.period()))
		passed += n
	}
	s.passed += passed
	return passed
}

// addOnTime records a burst that began about when it was due.
func (s *schedule) addOnTime(at int64) {
	s.periods += s.passed + 1
	s.passed, s.missed, s.last = 0, 0, at
	s.due += (at - s.due) / 2
	s.due += int64(math.Round(s.period()))
}

// typicalSize returns the average size.
func (s *schedule) typicalSize() float64 {
	sum := 0.0
	for _, b := range s.bursts() {
		sum += float64(b.size)
	}
	return sum / float64(len(s.bursts()))
}

// predictWith adds a burst to the prediction for 10 s without it. The prediction is less
// certain after few bursts, or if they vary.
func (s *schedule) predictWith(p predictive) predictive {
	n, mean, squares := float64(len(s.bursts())), s.typicalSize(), 0.0
	for _, b := range s.bursts() {
		off := float64(b.size) - mean
		squares += off * off
	}
	mean = max(mean, 1)
	factor := max(1, (2*mean+squares)/(2*mean+(n-1)*mean))
	variance := p.mean*(1+p.excess) + mean*(factor+1/n)
	all := p.mean + mean
	return predictive{mean: all, excess: variance/all - 1}
}

// maxLength returns how many seconds a burst may last.
func (s *schedule) maxLength() (most int64) {
	for _, b := range s.bursts() {
		most = max(most, b.length)
	}
	return min(maxLonger*most+moreLonger, maxBurstSeconds)
}

// recurring learns the schedules of bursts.
type recurring struct {
	past      [maxPast]burst // the newest first
	npast     int
	schedules [maxSchedules]schedule
	n         int
	// current is the schedule of the current episode, counted from 1, or 0.
	current int
	// recurred counts the bursts without a spike.
	recurred uint64
}

// schedule returns the schedule of the current episode.
func (r *recurring) schedule() *schedule { return &r.schedules[r.current-1] }

// findSchedule returns the schedule that a burst follows, or makes one if it is the third
// at equal intervals. made reports whether it did: three may be evenly spaced by chance.
func (r *recurring) findSchedule(from int64) (s *schedule, made bool) {
	r.current = 0
	for i := 0; i < r.n; {
		s := &r.schedules[i]
		if s.missed += s.catchUp(from); s.missed > maxMissed {
			r.forget(i)
			continue
		}
		i++
		if from < s.due-maxLateness {
			continue
		}
		s.addOnTime(from)
		if r.current == 0 || s.typicalSize() > r.schedule().typicalSize() {
			r.current = i
		}
	}
	if r.current == 0 {
		if made = r.addSchedule(from); !made {
			return nil, false
		}
	}
	return r.schedule(), made
}

// patterns has the indexes of the past bursts that may be the second and the first of
// three: the newest two, or every other one if two schedules alternate.
var patterns = [...]struct{ second, first int }{{0, 1}, {1, 3}}

func (r *recurring) addSchedule(from int64) bool {
	for _, pattern := range patterns {
		if pattern.first >= r.npast {
			return false
		}
		first, second := r.past[pattern.first], r.past[pattern.second]
		gap := from - second.from
		if off := second.from - first.from - gap; gap < minPeriod || off > maxGapDifference || off < -maxGapDifference {
			continue
		}
		if r.n == maxSchedules {
			r.forget(0)
		}
		s := schedule{first: first.from, last: from, periods: 2}
		s.due = from + int64(math.Round(s.period()))
		s.add(first)
		s.add(second)
		r.schedules[r.n] = s
		r.n++
		r.current = r.n
		return true
	}
	return false
}

func (r *recurring) forget(i int) {
	copy(r.schedules[i:], r.schedules[i+1:r.n])
	r.n--
	r.schedules[r.n] = schedule{}
	if r.current > i {
		r.current--
	}
}

// addBurst records a burst that ended, and whether it was no spike. A burst that was due
// while it lasted was not missed.
func (r *recurring) addBurst(b burst, recurred bool) {
	for i := range r.n {
		r.schedules[i].catchUp(b.from + b.length)
	}
	if r.current == 0 {
		copy(r.past[1:], r.past[:])
		r.past[0] = b
		r.npast = min(r.npast+1, maxPast)
		return
	}
	s := r.schedule()
	s.add(b)
	if recurred {
		r.recurred++
	}
	r.current = 0
}

// isFrequent reports whether recent bursts without a schedule are so frequent that they are
// usual for the stream.
func (r *recurring) isFrequent(at int64) bool {
	return r.npast >= oftenBursts && at-r.past[oftenBursts-1].from < oftenSeconds
}
