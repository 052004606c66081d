package ratetail

import "time"

// Counter counts the errors of one app and signal. Its zero value is not ready: use [New].
type Counter struct {
	core
	episode   episode
	incident  incident
	scales    scales
	block     currentBlock
	recurring recurring
	drift     drift
	// wasRecurring reports whether the last incident was a burst that recurs.
	wasRecurring bool

	// ready, before and limit are a cache for the current second, once it has an error:
	// before has the errors in each window before it, and a count over limit is tested.
	ready  bool
	before [len(windows)]int64
	limit  int64
}

// episode is the current spike or expected burst.
type episode struct {
	// peak is the most errors in 10 s since it began, and usual how many are expected
	// without it.
	peak  int64
	usual float64
	// most and longest bound an expected burst: errors in 10 s, and seconds. Past them it
	// is a spike.
	most, longest int64
}

// currentBlock gathers a block of 10 s from the slots that leave the window.
type currentBlock struct {
	seconds, errors int64
	// hasSpike reports whether a part of the block belongs to a spike. usual has the levels
	// at its beginning.
	hasSpike bool
	usual    [numScales]level
}

// New returns a counter of a stream that was not observed before now.
func New(now time.Time) *Counter { return &Counter{core: newCore(now)} }

// Size returns about how many bytes a Counter takes.
func (c *Counter) Size() int { return counterSize }

// counterSize is the size on 64 bits, which a test compares with the real one.
const counterSize = 1888

// Recurred returns how many bursts came by a schedule and were no larger than usual, since
// New or a restart.
func (c *Counter) Recurred() uint64 { return c.recurring.recurred }

// Add counts an error at now and returns what it finds: a Spike, a Recurring burst or a
// Drift. There is one finding per incident and drift, and a second one for a Recurring
// burst that turns out to be a spike. failing reports whether so many requests of the app
// fail that no burst may pass as recurring.
func (c *Counter) Add(now time.Time, failing bool) (Finding, bool) {
	c.advanceTo(second(now))
	if !c.ready {
		c.ready, c.before = true, c.countsBefore()
		c.limit = minSpike - 1 - c.before[last]
	}
	n := c.add()
	if c.state == calm && c.incident.quietSince != 0 {
		c.countQuietError(c.before[last] + n)
	}
	switch {
	case c.state != calm:
		if found, ok := c.addToEpisode(c.before[last]+n, failing); ok {
			return found, true
		}
	case n > c.limit:
		found, limit, spike := c.findSpike(&c.before, n, &c.scales)
		c.limit = limit
		if !spike {
			break
		}
		if found, ok := c.beginEpisode(c.before[last]+n, found, failing); ok {
			return found, true
		}
	}
	// While a spike lasts, its alert covers the drift, too.
	if c.drift.unreported && c.incident.grade != gradeSpike {
		c.drift.unreported = false
		found := c.driftFinding(Drift)
		found.To = c.drift.risen.errors / c.drift.risen.seconds
		return found, true
	}
	return Finding{}, false
}

// Over lets time pass up to now and reports whether no incident is open. end is how the
// last one ended: SpikeOver, SpikeStayed or RecurringOver. moved reports whether the state
// has changed.
func (c *Counter) Over(now time.Time) (end Finding, over, moved bool) {
	moved = c.advanceTo(second(now))
	end = Finding{Kind: SpikeOver, Count: c.count(), Expected: c.expected(), Seconds: slots}
	switch {
	case c.stayed:
		end.Kind = SpikeStayed
	case c.wasRecurring:
		end.Kind = RecurringOver
	}
	return end, c.incident.grade == gradeNone, moved
}

// DriftOver is Over for a drift, with DriftOver or DriftStayed.
func (c *Counter) DriftOver(now time.Time) (end Finding, over, moved bool) {
	moved = c.advanceTo(second(now))
	end = c.driftFinding(DriftOver)
	if c.drift.stayed {
		end.Kind = DriftStayed
	}
	return end, !c.drift.open, moved
}

func (c *Counter) driftFinding(kind Kind) Finding {
	return Finding{Kind: kind, From: c.drift.from, To: c.scales.levels[0].rate(), Over: c.at - c.drift.calm}
}

// beginEpisode opens an episode with n errors in the last 10 s: a spike, or an expected
// burst.
func (c *Counter) beginEpisode(n int64, found Finding, failing bool) (Finding, bool) {
	p := c.scales.expect(c.usual, slots)
	c.state, c.from = spiking, c.onset()
	c.episode = episode{peak: n, usual: p.mean}
	due, made := c.recurring.findSchedule(c.from)
	if due == nil || made {
		if due == nil && c.recurring.isFrequent(c.from) {
			c.scales.addSpike(n, int64(*c.slot(c.at))+int64(*c.slot(c.at - 1)))
		}
		return c.openSpike(found)
	}
	c.state = expected
	c.episode.most, c.episode.longest = int64(p.mean+maxLarger*due.typicalSize()), due.maxLength()
	if c.exceedsBounds(n, failing) {
		return c.addToEpisode(n, failing)
	}
	found.Kind, found.Period, found.Usual = Recurring, due.period(), due.typicalSize()
	return c.openRecurring(found)
}

// exceedsBounds reports whether an expected burst exceeds its bounds, with n errors in the
// last 10 s.
func (c *Counter) exceedsBounds(n int64, failing bool) bool {
	return failing || n > c.episode.most || c.at-c.from > c.episode.longest
}

// addToEpisode counts an error of the current episode, which may turn an expected burst into
// a spike.
func (c *Counter) addToEpisode(n int64, failing bool) (Finding, bool) {
	e := &c.episode
	e.peak = max(e.peak, n)
	c.addEpisodeSize()
	if c.state != expected || !c.exceedsBounds(n, failing) {
		return Finding{}, false
	}
	c.state = spiking
	due, longer := c.recurring.schedule(), n <= e.most
	p := c.scales.expect(c.usual, slots)
	if !longer {
		p = due.predictWith(p)
	}
	return c.openSpike(Finding{
		Kind: Spike, Count: n, Expected: p.mean, LogP: p.logTail(float64(n)), Seconds: slots,
		Period: due.period(), Usual: due.typicalSize(), Longer: longer,
	})
}

// advanceTo lets time pass up to a second, and reports whether that changed anything.
func (c *Counter) advanceTo(s int64) (moved bool) {
	if s == c.at {
		return false
	}
	c.ready = false
	if s < c.at {
		*c = Counter{core: core{at: s, lastError: s, since: s}}
		return true
	}
	for c.at < s && c.windowHasErrors() {
		n, class := c.tick()
		c.learnSecond(n, class)
		if c.state != calm && c.episodeOver() {
			c.endEpisode()
		}
		c.updateIncident()
	}
	for c.at < s {
		to := min(s, max(c.incident.deadline(), c.at+1))
		c.skipSeconds(to - c.at)
		c.updateIncident()
	}
	return true
}

// learnSecond learns from a second that left the window.
func (c *Counter) learnSecond(n int64, class slotClass) {
	if class == unknownSlot {
		return
	}
	if c.incident.frozen {
		c.incident.all.pass(float64(n), shortMemory)
	}
	if class == usualSlot {
		c.scales.pass(n)
		c.updateUsual()
	} else {
		c.block.hasSpike = true
	}
	c.block.errors += n
	if c.block.seconds++; c.block.seconds == block {
		c.endBlock()
	}
}

// updateUsual makes the learned level the usual one, unless the usual one is frozen.
func (c *Counter) updateUsual() {
	if !c.incident.frozen {
		c.usual = c.scales.usual()
	}
}

// endBlock ends the current block and learns from it.
func (c *Counter) endBlock() {
	if !c.block.hasSpike {
		c.scales.addBlocks(float64(c.block.errors), 1, &c.block.usual)
		c.updateDrift(float64(c.block.errors), 1, c.at)
		c.updateUsual()
	}
	if c.drift.open && c.at-c.drift.since >= driftNewLevel {
		c.drift.rebase(c.rate(), c.at)
	}
	c.block = currentBlock{usual: c.scales.levels}
}

// rate returns the rate of the last minutes, in errors a second.
func (c *Counter) rate() float64 { return c.scales.levels[0].rate() }

// updateDrift adds to the drift a number of blocks with n errors each, up to a second.
func (c *Counter) updateDrift(n, blocks float64, at int64) {
	c.drift.addBlocks(n, blocks, c.scales.spreads[0].factor(), c.rate(), at)
}

// endEpisode ends an episode.
func (c *Counter) endEpisode() {
	c.recurring.addBurst(burst{from: c.from, size: max(0, c.episode.peak-int64(c.episode.usual)), length: c.at - c.from}, c.state == expected)
	c.beginQuiet()
	c.state, c.episode = calm, episode{}
}

// skipSeconds lets seconds pass with an empty window. A silence teaches nothing about
// clusters or drifts, but it ends an open drift in time.
func (c *Counter) skipSeconds(seconds int64) {
	before := c.scales.levels
	audible, effective := c.skip(seconds)
	c.scales.skip(effective)
	if c.incident.frozen {
		c.incident.all.skip(effective, shortMemory)
	}
	silent := seconds - audible
	if left := block - c.block.seconds; audible < left {
		c.block.seconds += audible
	} else {
		c.at -= seconds - left // the second in which the block ends
		c.endBlock()
		c.at += seconds - left
		blocks := float64((audible - left) / block)
		c.scales.addBlocks(0, blocks, &before)
		c.updateDrift(0, blocks, c.at-silent)
		c.block = currentBlock{seconds: (audible - left) % block, usual: c.scales.levels}
	}
	if silent > 0 {
		c.scales.skipUnknown(float64(silent) / silenceSlowdown)
		if c.drift.open {
			c.updateDrift(0, float64(silent)/silenceSlowdown/block, c.at)
		} else {
			c.drift.recordGap()
		}
		c.block = currentBlock{usual: c.scales.levels}
	}
	c.updateUsual()
}
