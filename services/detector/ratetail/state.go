package ratetail

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// Bounds on the values in a snapshot: seconds in either direction from 1970, counts, and
// logarithms of likelihoods.
const (
	maxSeconds = 1 << 44
	maxCount   = 1 << 42
	maxScore   = maxCount * maxSeconds
)

// State writes or reads the counter.
func (s *Small) State(st *snapshot.Codec) {
	if s.fields(st); st.Reading() && s.state == expected {
		st.Fail("a burst by a schedule, which a Small does not learn")
	}
}

// fields writes or reads the core. Times are relative to the current second.
func (c *core) fields(s *snapshot.Codec) {
	lastError, since, from := c.at-c.lastError, c.at-c.since, c.at-c.from
	snapshot.Message(s, 1, &c.usual, (*level).state)
	snapshot.Int(s, 2, &c.at, maxSeconds)
	snapshot.Uint(s, 3, &lastError, maxSeconds)
	snapshot.Uint(s, 4, &since, maxSeconds)
	snapshot.Uint(s, 5, &c.state, uint64(states-1))
	snapshot.Int(s, 6, &from, maxSeconds)
	s.Bool(7, &c.stayed)
	snapshot.Uint(s, 8, &c.patience, math.MaxUint32)
	var room [slots]uint32
	newest, n := room[:], 0
	for i := range newest {
		if newest[i] = *c.slot(c.at - int64(i)); newest[i] > 0 {
			n = i + 1
		}
	}
	newest = newest[:n] // the older ones are zero
	newest = snapshot.Packed(s, 9, newest, slots, math.MaxUint32)
	if !s.Reading() {
		return
	}
	c.lastError, c.since, c.from = c.at-lastError, c.at-since, c.at-from
	c.slots = [slots]uint32{}
	for i, n := range newest {
		*c.slot(c.at - int64(i)) = n
	}
}

// count and amount are fields with values from 0 to maxCount.
func count[T snapshot.Integer](s *snapshot.Codec, number protowire.Number, v *T) {
	snapshot.Uint(s, number, v, maxCount)
}

func amount(s *snapshot.Codec, number protowire.Number, v *float64) {
	s.Float(number, v, 0, maxCount)
}

func (l *level) state(s *snapshot.Codec) {
	amount(s, 1, &l.count)
	amount(s, 2, &l.exposure)
}

// State writes or reads the counter. It refuses a state that was cut off, although fields
// that a snapshot lacks read as zero: field 10 of the core, which comes first, announces
// field 9, which comes last. Snapshots from before this check have neither.
func (c *Counter) State(s *snapshot.Codec) {
	announced, complete := true, true
	snapshot.Message(s, 1, &c.core, func(c *core, s *snapshot.Codec) {
		c.fields(s)
		s.Bool(10, &announced)
	})
	snapshot.Message(s, 2, &c.episode, (*episode).state)
	snapshot.Message(s, 3, &c.incident, (*incident).state)
	s.Bool(4, &c.wasRecurring)
	snapshot.Message(s, 5, &c.scales, (*scales).state)
	snapshot.Message(s, 6, &c.block, (*currentBlock).state)
	snapshot.Message(s, 7, &c.recurring, (*recurring).state)
	snapshot.Message(s, 8, &c.drift, (*drift).state)
	s.Bool(9, &complete)
	if !s.Reading() {
		return
	}
	if c.at == 0 || announced && !complete {
		s.Fail("a counter that ends early")
	}
	// Before version 8 there was one level.
	for i := range c.block.usual {
		if c.block.usual[0].exposure > 0 && c.block.usual[i].exposure == 0 {
			c.block.usual[i] = c.scales.levels[i]
		}
	}
	if c.state == expected && c.recurring.current == 0 {
		s.Fail("an expected burst without a schedule")
		*c = Counter{}
	}
}

func (e *episode) state(s *snapshot.Codec) {
	count(s, 1, &e.peak)
	amount(s, 2, &e.usual)
	count(s, 3, &e.most)
	count(s, 4, &e.longest)
}

func (b *currentBlock) state(s *snapshot.Codec) {
	snapshot.Uint(s, 1, &b.seconds, block-1)
	count(s, 2, &b.errors)
	s.Bool(3, &b.hasSpike)
	for i := range b.usual {
		snapshot.Message(s, protowire.Number(4+i), &b.usual[i], (*level).state)
	}
}

func (p *spread) state(s *snapshot.Codec) {
	amount(s, 1, &p.squares)
	amount(s, 2, &p.expected)
	amount(s, 3, &p.means)
}

func (s *scales) state(st *snapshot.Codec) {
	for i := range s.levels {
		one := scale{s.levels[i], s.spreads[i], s.scores[i]}
		snapshot.Message(st, protowire.Number(1+i), &one, (*scale).state)
		s.levels[i], s.spreads[i], s.scores[i] = one.level, one.spread, one.score
	}
	amount(st, 4, &s.tail.beyond)
	amount(st, 5, &s.tail.counts)
	snapshot.Uint(st, 6, &s.chosen, numScales-1)
	snapshot.Message(st, 7, &s.fine, (*spread).state)
	snapshot.Uint(st, 8, &s.part.seconds, fineBlock-1)
	count(st, 9, &s.part.errors)
	waiting := s.waiting[:s.nwaiting]
	waiting = snapshot.Packed(st, 10, waiting, learnDelay, math.MaxUint32)
	s.nwaiting = len(waiting)
	if usual := s.levels[0]; st.Reading() && usual.exposure > 0 && s.levels[1].exposure == 0 {
		s.setLevel(usual) // before version 8 there was one level
		s.levels[0] = usual
	}
}

// scale has the values of one time scale, which scales keeps in separate arrays.
type scale struct {
	level  level
	spread spread
	score  float64
}

func (c *scale) state(s *snapshot.Codec) {
	c.level.state(s)
	snapshot.Message(s, 3, &c.spread, (*spread).state)
	s.Float(4, &c.score, -maxScore, maxScore)
}

func (i *incident) state(s *snapshot.Codec) {
	snapshot.Uint(s, 1, &i.grade, uint64(grades-1))
	if i.grade == gradeNone {
		return
	}
	snapshot.Int(s, 2, &i.opened, maxSeconds)
	snapshot.Int(s, 3, &i.quietSince, maxSeconds)
	count(s, 4, &i.quietErrors)
	count(s, 5, &i.level)
	count(s, 6, &i.spiking)
	count(s, 7, &i.peak)
	s.Bool(8, &i.frozen)
	amount(s, 9, &i.before)
	snapshot.Message(s, 10, &i.all, (*level).state)
}

func (b *burst) state(s *snapshot.Codec) {
	snapshot.Int(s, 1, &b.from, maxSeconds)
	count(s, 2, &b.size)
	count(s, 3, &b.length)
}

func (r *recurring) state(s *snapshot.Codec) {
	past, schedules := r.past[:r.npast], r.schedules[:r.n]
	snapshot.List(s, 1, &past, maxPast, (*burst).state)
	snapshot.List(s, 2, &schedules, maxSchedules, (*schedule).state)
	r.npast, r.n = len(past), len(schedules)
	snapshot.Uint(s, 3, &r.current, uint64(r.n))
}

func (c *schedule) state(s *snapshot.Codec) {
	length, sizes := c.last-c.first, c.sizes[:c.n]
	snapshot.Int(s, 1, &c.last, maxSeconds)
	snapshot.Int(s, 2, &length, maxSeconds)
	count(s, 3, &c.periods)
	snapshot.Int(s, 4, &c.due, maxSeconds)
	count(s, 5, &c.passed)
	count(s, 6, &c.missed)
	snapshot.List(s, 7, &sizes, maxSizes, (*burst).state)
	if !s.Reading() {
		return
	}
	c.first, c.n = c.last-length, len(sizes)
	if c.n == 0 || c.periods == 0 || c.period() < minPeriod/2 {
		s.Fail("%d bursts in %d periods from %d to %d", c.n, c.periods, c.first, c.last)
	}
}

func (d *drift) state(s *snapshot.Codec) {
	snapshot.Message(s, 1, &d.reference, (*level).state)
	amount(s, 2, &d.sum)
	snapshot.Int(s, 3, &d.calm, maxSeconds)
	amount(s, 4, &d.risen.errors)
	amount(s, 5, &d.risen.seconds)
	s.Bool(6, &d.open)
	s.Bool(7, &d.unreported)
	s.Bool(8, &d.stayed)
	snapshot.Int(s, 9, &d.since, maxSeconds)
	amount(s, 10, &d.from)
	amount(s, 11, &d.backSum)
	snapshot.Message(s, 12, &d.long, (*longSpread).state)
	if s.Reading() && d.unreported && d.risen.seconds == 0 {
		s.Fail("a drift in no time")
	}
}

func (l *longSpread) state(s *snapshot.Codec) {
	amount(s, 1, &l.squares)
	amount(s, 2, &l.blocks)
	amount(s, 3, &l.errors)
	amount(s, 4, &l.seconds)
	amount(s, 5, &l.before)
	s.Bool(6, &l.known)
}
