package ratetail

import (
	"math"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// What no snapshot of ours exceeds: seconds in either direction from 1970, and
// counts.
const (
	maxSeconds = 1 << 44
	maxCount   = 1 << 42
)

// Save writes what is known, for RestoreSmall.
func (s *Small) Save(w *snapshot.Writer) { s.save(w) }

// RestoreSmall reads what Save wrote. Errors are in r.
func RestoreSmall(r *snapshot.Reader) Small {
	s := Small{restoreCore(r)}
	if s.state == expected {
		r.Fail("a schedule where there is none")
	}
	return s
}

func (c *core) save(w *snapshot.Writer) {
	saveLevel(w, c.usual)
	w.Int(c.at)
	w.Int(c.at - c.lastError)
	w.Int(c.at - c.since)
	w.Uint(uint64(c.state))
	w.Int(c.at - c.from)
	w.Bool(c.stayed)
	w.Uint(uint64(c.patience))
	for i := range int64(slots) {
		w.Uint(uint64(*c.slot(c.at - i)))
	}
}

func restoreCore(r *snapshot.Reader) (c core) {
	c.usual = restoreLevel(r)
	c.at = seconds(r)
	c.lastError = c.at - seconds(r)
	c.since = c.at - seconds(r)
	if c.state = state(r.UpTo(int(states) - 1)); c.lastError > c.at || c.since > c.at {
		r.Fail("what is known comes later than now")
	}
	c.from = c.at - seconds(r)
	c.stayed = r.Bool()
	c.patience = uint32(r.UpTo(math.MaxUint32))
	for i := range int64(slots) {
		*c.slot(c.at - i) = uint32(r.UpTo(math.MaxUint32))
	}
	return c
}

// seconds reads a time or a stretch of time.
func seconds(r *snapshot.Reader) int64 {
	v := r.Int()
	if v > maxSeconds || v < -maxSeconds {
		r.Fail("%d s", v)
		return 0
	}
	return v
}

// amount reads what is neither negative nor without end.
func amount(r *snapshot.Reader) float64 {
	v := r.Float()
	if !(v >= 0 && v <= maxCount) {
		r.Fail("%v where an amount is to be", v)
		return 0
	}
	return v
}

func saveLevel(w *snapshot.Writer, l level) {
	w.Float(l.count)
	w.Float(l.exposure)
}

func restoreLevel(r *snapshot.Reader) level { return level{count: amount(r), exposure: amount(r)} }

// Save writes what is known, for Restore.
func (c *Counter) Save(w *snapshot.Writer) {
	c.save(w)
	if c.state != calm {
		w.Uint(uint64(c.episode.peak))
		w.Float(c.episode.usual)
		w.Uint(uint64(c.episode.most))
		w.Uint(uint64(c.episode.longest))
	}
	c.incident.save(w)
	w.Bool(c.wasNoted)
	c.scales.save(w)
	w.Uint(uint64(c.block.seconds))
	w.Uint(uint64(c.block.errors))
	w.Bool(c.block.void)
	for _, l := range c.block.usual {
		saveLevel(w, l)
	}
	c.recurring.save(w)
	c.drift.save(w)
}

// Restore reads what Save wrote. Errors are in r.
func Restore(r *snapshot.Reader) *Counter {
	c := &Counter{core: restoreCore(r)}
	if c.state != calm {
		c.episode = episode{peak: count(r), usual: amount(r)}
		if !r.Has(snapshot.Lifecycle) {
			c.incident.all = restoreLevel(r)
		}
		c.episode.most, c.episode.longest = count(r), count(r)
	}
	if r.Has(snapshot.Lifecycle) {
		c.incident, c.wasNoted = restoreIncident(r), r.Bool()
	} else {
		c.adopt()
	}
	c.scales = restoreScales(r, c.usual)
	c.block = counted{seconds: int64(r.UpTo(block - 1)), errors: count(r), void: r.Bool(), usual: c.scales.levels}
	c.block.usual[0] = restoreLevel(r)
	if r.Has(snapshot.Lifecycle) {
		for i := range c.block.usual[1:] {
			c.block.usual[1+i] = restoreLevel(r)
		}
	}
	c.recurring = restoreRecurring(r)
	c.drift = restoreDrift(r)
	if c.state == expected && c.recurring.current == 0 {
		r.Fail("a burst that was expected by no schedule")
		return New(time.Time{})
	}
	return c
}

// adopt makes an incident of the spike of an older snapshot. What is usual was kept
// apart from it then, too. Of a burst that was expected nothing was told.
func (c *Counter) adopt() {
	if c.state != spiking {
		c.incident = incident{}
		return
	}
	c.incident = incident{grade: raised, opened: c.from, spiking: c.at - c.from, peak: c.episode.peak, frozen: true, before: c.usual.rate(), all: c.incident.all}
}

func saveSpread(w *snapshot.Writer, s spread) {
	w.Float(s.squares)
	w.Float(s.expected)
	w.Float(s.means)
}

func restoreSpread(r *snapshot.Reader) spread {
	s := spread{squares: amount(r), expected: amount(r)}
	if r.Has(snapshot.Lifecycle) {
		s.means = amount(r)
	}
	return s
}

func (s *scales) save(w *snapshot.Writer) {
	for i := range s.levels {
		saveSpread(w, s.spreads[i])
		saveLevel(w, s.levels[i])
		w.Float(s.scores[i])
	}
	w.Float(s.tail.beyond)
	w.Float(s.tail.counts)
	w.Uint(uint64(s.chosen))
	saveSpread(w, s.fine)
	w.Uint(uint64(s.part.seconds))
	w.Uint(uint64(s.part.errors))
	w.Len(s.waits)
	for _, n := range s.waiting[:s.waits] {
		w.Uint(uint64(n))
	}
}

// restoreScales reads what save wrote. Older snapshots have one level, which is usual,
// and its spread.
func restoreScales(r *snapshot.Reader, usual level) (s scales) {
	if !r.Has(snapshot.Lifecycle) {
		known := restoreSpread(r)
		s.settle(usual)
		s.levels[0], s.fine = usual, known
		for i := range s.spreads {
			s.spreads[i] = known
		}
		return s
	}
	for i := range s.levels {
		s.spreads[i], s.levels[i], s.scores[i] = restoreSpread(r), restoreLevel(r), score(r)
	}
	s.tail = tail{beyond: amount(r), counts: amount(r)}
	s.chosen, s.fine = r.UpTo(numScales-1), restoreSpread(r)
	s.part.seconds, s.part.errors = int64(r.UpTo(fineBlock-1)), count(r)
	s.waits = r.Len(lag)
	for i := range s.waits {
		s.waiting[i] = uint32(r.UpTo(math.MaxUint32))
	}
	return s
}

// score reads a logarithm of a likelihood.
func score(r *snapshot.Reader) float64 {
	v := r.Float()
	if !(v >= -maxCount*maxSeconds && v <= maxCount*maxSeconds) {
		r.Fail("%v where a score is to be", v)
		return 0
	}
	return v
}

func (i *incident) save(w *snapshot.Writer) {
	w.Uint(uint64(i.grade))
	if i.grade == none {
		return
	}
	w.Int(i.opened)
	w.Int(i.quietSince)
	w.Uint(uint64(i.quietErrors))
	w.Uint(uint64(i.level))
	w.Uint(uint64(i.spiking))
	w.Uint(uint64(i.peak))
	w.Bool(i.frozen)
	w.Float(i.before)
	saveLevel(w, i.all)
}

func restoreIncident(r *snapshot.Reader) incident {
	g := grade(r.UpTo(int(grades) - 1))
	if g == none {
		return incident{}
	}
	return incident{
		grade: g, opened: seconds(r), quietSince: seconds(r), quietErrors: count(r), level: count(r), spiking: count(r), peak: count(r),
		frozen: r.Bool(), before: amount(r), all: restoreLevel(r),
	}
}

func count(r *snapshot.Reader) int64 { return int64(r.UpTo(maxCount)) }

func (b burst) save(w *snapshot.Writer) {
	w.Int(b.from)
	w.Uint(uint64(b.size))
	w.Uint(uint64(b.length))
}

func restoreBurst(r *snapshot.Reader) burst {
	return burst{from: seconds(r), size: count(r), length: count(r)}
}

func (r *recurring) save(w *snapshot.Writer) {
	w.Len(r.pasts)
	for _, b := range r.past[:r.pasts] {
		b.save(w)
	}
	w.Len(r.n)
	for i := range r.n {
		s := &r.schedules[i]
		w.Int(s.last)
		w.Int(s.last - s.first)
		w.Uint(uint64(s.periods))
		w.Int(s.due)
		w.Uint(uint64(s.passed))
		w.Uint(uint64(s.missed))
		w.Len(s.n)
		for _, b := range s.sizes[:s.n] {
			b.save(w)
		}
	}
	w.Len(r.current)
}

func restoreRecurring(r *snapshot.Reader) (of recurring) {
	of.pasts = r.Len(maxPast)
	for i := range of.pasts {
		of.past[i] = restoreBurst(r)
	}
	of.n = r.Len(maxSchedules)
	for i := range of.n {
		s := &of.schedules[i]
		s.last = seconds(r)
		s.first = s.last - seconds(r)
		s.periods, s.due, s.passed, s.missed = count(r), seconds(r), count(r), count(r)
		s.n = r.Len(maxSizes)
		for i := range s.n {
			s.sizes[i] = restoreBurst(r)
		}
		if s.n == 0 || s.periods == 0 || s.period() < minPeriod/2 {
			r.Fail("%d bursts in %d periods from %d to %d", s.n, s.periods, s.first, s.last)
			return recurring{}
		}
	}
	of.current = r.UpTo(of.n)
	return of
}

func (d *drift) save(w *snapshot.Writer) {
	saveLevel(w, d.reference)
	w.Float(d.sum)
	w.Int(d.calm)
	w.Float(d.risen.errors)
	w.Float(d.risen.seconds)
	w.Bool(d.open)
	w.Bool(d.news)
	w.Bool(d.stayed)
	w.Int(d.since)
	w.Float(d.from)
	w.Float(d.back)
	w.Float(d.long.squares)
	w.Float(d.long.blocks)
	w.Float(d.long.errors)
	w.Float(d.long.seconds)
	w.Float(d.long.before)
	w.Bool(d.long.known)
}

func restoreDrift(r *snapshot.Reader) (d drift) {
	d.reference, d.sum, d.calm = restoreLevel(r), amount(r), seconds(r)
	d.risen.errors, d.risen.seconds = amount(r), amount(r)
	d.open, d.news, d.stayed = r.Bool(), r.Bool(), r.Bool()
	d.since, d.from, d.back = seconds(r), amount(r), amount(r)
	if r.Has(snapshot.Lifecycle) {
		d.long = longSpread{squares: amount(r), blocks: amount(r), errors: amount(r), seconds: amount(r), before: amount(r), known: r.Bool()}
	}
	if d.news && d.risen.seconds == 0 {
		r.Fail("a drift in no time")
	}
	return d
}
