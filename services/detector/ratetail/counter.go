package ratetail

import "time"

// Counter counts the errors of one app and signal. Its zero value is not ready: New says
// when counting begins.
type Counter struct {
	core
	episode   episode
	incident  incident
	scales    scales
	block     counted
	recurring recurring
	drift     drift
	// wasNoted reports whether the last incident was a burst that recurs.
	wasNoted bool

	// ready, before and limit hold for the current second, once it has an error: the errors
	// in each window before it, and how many may come in it before they are tested. They
	// follow from the rest.
	ready  bool
	before [len(windows)]int64
	limit  int64
}

// episode is the current spike, or burst that was expected.
type episode struct {
	// peak is the most errors in 10 s since it began, and usual how many are expected
	// without it.
	peak  int64
	usual float64
	// most and longest bound a burst that was expected: errors in 10 s, and seconds. A
	// larger one is a spike.
	most, longest int64
}

// counted is the block of 10 s that is gathered from the slots that leave the window.
type counted struct {
	seconds, errors int64
	// void reports whether a part of it belongs to a spike. usual are the levels at its
	// beginning.
	void  bool
	usual [numScales]level
}

// New returns a counter of a stream that was not watched before now.
func New(now time.Time) *Counter { return &Counter{core: begun(now)} }

// Size is about how many bytes a Counter takes.
func (c *Counter) Size() int { return counterSize }

// counterSize is the size on 64 bits, which a test compares with the real one.
const counterSize = 1888

// Recurred returns how many bursts came by their schedules and were no larger than usual,
// since New or a restart.
func (c *Counter) Recurred() uint64 { return c.recurring.recurred }

// Add counts an error at now and returns what it finds: a Spike, a Recurring burst or a
// Drift. There is one finding per incident and drift, and a second one for a Recurring
// burst that turns out to be a spike. failing reports whether so many requests of the app
// fail that no burst may pass as recurring.
func (c *Counter) Add(now time.Time, failing bool) (Finding, bool) {
	c.until(second(now))
	if !c.ready {
		c.ready, c.before = true, c.earlier()
		c.limit = minSpike - 1 - c.before[last]
	}
	n := c.add()
	if c.state == calm && c.incident.quietSince != 0 {
		c.heard(c.before[last] + n)
	}
	switch {
	case c.state != calm:
		if found, ok := c.goOn(c.before[last]+n, failing); ok {
			return found, true
		}
	case n > c.limit:
		found, limit, spike := c.test(&c.before, n, &c.scales)
		c.limit = limit
		if !spike {
			break
		}
		if found, ok := c.begin(c.before[last]+n, found, failing); ok {
			return found, true
		}
	}
	// While a spike lasts, its alert covers the rise.
	if c.drift.news && c.incident.grade != raised {
		c.drift.news = false
		found := c.drifted(Drift)
		found.To = c.drift.risen.errors / c.drift.risen.seconds
		return found, true
	}
	return Finding{}, false
}

// Over lets time pass up to now and reports whether no incident is open, and how the last
// one ended: SpikeOver, SpikeStayed or RecurringOver. moved reports whether the state has
// changed.
func (c *Counter) Over(now time.Time) (end Finding, over, moved bool) {
	moved = c.until(second(now))
	end = Finding{Kind: SpikeOver, Count: c.count(), Expected: c.expected(), Seconds: slots}
	switch {
	case c.stayed:
		end.Kind = SpikeStayed
	case c.wasNoted:
		end.Kind = RecurringOver
	}
	return end, c.incident.grade == none, moved
}

// DriftOver is Over for a drift, with DriftOver or DriftStayed.
func (c *Counter) DriftOver(now time.Time) (end Finding, over, moved bool) {
	moved = c.until(second(now))
	end = c.drifted(DriftOver)
	if c.drift.stayed {
		end.Kind = DriftStayed
	}
	return end, !c.drift.open, moved
}

func (c *Counter) drifted(kind Kind) Finding {
	return Finding{Kind: kind, From: c.drift.from, To: c.scales.levels[0].rate(), Over: c.at - c.drift.calm}
}

// begin opens an episode: a spike with n errors in the last 10 s, or a burst that was
// expected.
func (c *Counter) begin(n int64, found Finding, failing bool) (Finding, bool) {
	p := c.scales.expect(c.usual, slots)
	c.state, c.from = spiking, c.onset()
	c.episode = episode{peak: n, usual: p.mean}
	due, made := c.recurring.of(c.from)
	if due == nil || made {
		if due == nil && c.recurring.often(c.from) {
			c.scales.spike(n, int64(*c.slot(c.at))+int64(*c.slot(c.at - 1)))
		}
		return c.raise(found)
	}
	c.state = expected
	c.episode.most, c.episode.longest = int64(p.mean+maxLarger*due.typical()), due.longest()
	if c.larger(n, failing) {
		return c.goOn(n, failing)
	}
	found.Kind, found.Period, found.Usual = Recurring, due.period(), due.typical()
	return c.note(found)
}

// larger reports whether a burst that was expected, with n errors in the last 10 s, exceeds
// its bounds.
func (c *Counter) larger(n int64, failing bool) bool {
	return failing || n > c.episode.most || c.at-c.from > c.episode.longest
}

// goOn counts an error of the current episode, which may turn a burst that was expected
// into a spike.
func (c *Counter) goOn(n int64, failing bool) (Finding, bool) {
	e := &c.episode
	e.peak = max(e.peak, n)
	c.held()
	if c.state != expected || !c.larger(n, failing) {
		return Finding{}, false
	}
	c.state = spiking
	due, longer := c.recurring.schedule(), n <= e.most
	p := c.scales.expect(c.usual, slots)
	if !longer {
		p = due.with(p)
	}
	return c.raise(Finding{
		Kind: Spike, Count: n, Expected: p.mean, LogP: p.logTail(float64(n)), Seconds: slots,
		Period: due.period(), Usual: due.typical(), Longer: longer,
	})
}

// until lets time pass up to a second, and reports whether that changed anything.
func (c *Counter) until(s int64) (moved bool) {
	if s == c.at {
		return false
	}
	c.ready = false
	if s < c.at {
		*c = Counter{core: core{at: s, lastError: s, since: s}}
		return true
	}
	for c.at < s && c.full() {
		n, class := c.tick()
		c.left(n, class)
		if c.state != calm && c.calmed() {
			c.ended()
		}
		c.advance()
	}
	for c.at < s {
		to := min(s, max(c.incident.deadline(), c.at+1))
		c.skipped(to - c.at)
		c.advance()
	}
	return true
}

// left takes in a second that left the window.
func (c *Counter) left(n int64, class slotClass) {
	if class == unknownSlot {
		return
	}
	if c.incident.frozen {
		c.incident.all.pass(float64(n), short)
	}
	if class == usualSlot {
		c.scales.pass(n)
		c.thaw()
	} else {
		c.block.void = true
	}
	c.block.errors += n
	if c.block.seconds++; c.block.seconds == block {
		c.blockDone()
	}
}

// thaw makes the learned level the usual one, unless that is frozen.
func (c *Counter) thaw() {
	if !c.incident.frozen {
		c.usual = c.scales.usual()
	}
}

func (c *Counter) blockDone() {
	if !c.block.void {
		c.scales.see(float64(c.block.errors), 1, &c.block.usual)
		c.drifts(float64(c.block.errors), 1, c.at)
		c.thaw()
	}
	if c.drift.open && c.at-c.drift.since >= driftNewLevel {
		c.drift.rebase(c.rate(), c.at)
	}
	c.block = counted{usual: c.scales.levels}
}

// rate returns the rate of the last minutes, in errors a second.
func (c *Counter) rate() float64 { return c.scales.levels[0].rate() }

// drifts gives the drift a number of blocks with n errors each, up to a second.
func (c *Counter) drifts(n, blocks float64, at int64) {
	c.drift.see(n, blocks, c.scales.spreads[0].factor(), c.rate(), at)
}

// ended ends an episode.
func (c *Counter) ended() {
	c.recurring.over(burst{from: c.from, size: max(0, c.episode.peak-int64(c.episode.usual)), length: c.at - c.from}, c.state == expected)
	c.quieten()
	c.state, c.episode = calm, episode{}
}

// skipped lets seconds pass with an empty window. A silence says nothing of how errors
// cluster, nor that they drift, but it ends a drift that is open in time.
func (c *Counter) skipped(seconds int64) {
	before := c.scales.levels
	heard, felt := c.skip(seconds)
	c.scales.skip(felt)
	if c.incident.frozen {
		c.incident.all.skip(felt, short)
	}
	silent := seconds - heard
	if left := block - c.block.seconds; heard < left {
		c.block.seconds += heard
	} else {
		c.at -= seconds - left // as if each second of the block had been let pass
		c.blockDone()
		c.at += seconds - left
		blocks := float64((heard - left) / block)
		c.scales.see(0, blocks, &before)
		c.drifts(0, blocks, c.at-silent)
		c.block = counted{seconds: (heard - left) % block, usual: c.scales.levels}
	}
	if silent > 0 {
		c.scales.passBlind(float64(silent) / slowdown)
		if c.drift.open {
			c.drifts(0, float64(silent)/slowdown/block, c.at)
		} else {
			c.drift.silent()
		}
		c.block = counted{usual: c.scales.levels}
	}
	c.thaw()
}
