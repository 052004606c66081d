package oldsnapshot

// ratioCounter converts a counter of the rule ratio3x.
func ratioCounter(c converter) {
	room, n := c.uint(), c.count(maxItems)
	var times []int64
	var counts []uint64
	last := int64(0)
	for range n {
		last += c.int()
		times, counts = append(times, last), append(counts, c.positive())
	}
	recent, open, opened := c.uint(), c.bool(), c.uint()
	var frozen, calmSince, returned, moved uint64
	var calm, stayed bool
	switch {
	case c.has(lifecycle):
		frozen, calm, calmSince, returned, stayed, moved = c.uint(), c.bool(), c.uint(), c.uint(), c.bool(), c.uint()
	case c.has(resolutions): // the earlier boolean had another meaning
		open, moved = c.bool(), c.uint()
	}
	if open && !c.has(lifecycle) && recent <= uint64(n) {
		frozen = frozenAverage(counts, int(recent))
	}
	c.putUint(1, room)
	c.putTimes(2, times)
	c.putUints(3, counts)
	c.putUint(4, recent)
	c.putBool(5, open)
	c.putUint(6, opened)
	c.putUint(7, frozen)
	c.putBool(8, calm)
	c.putUint(9, calmSince)
	c.putUint(10, returned)
	c.putBool(11, stayed)
	c.putUint(12, moved)
}

// frozenAverage estimates the count of the minute before an open spike, which versions
// before 8 did not store. Errors of the spike may be among those counted. When the spike
// was found, its count in 10 s was more than 3 times the average, so the minute before had
// at most twice that count.
func frozenAverage(counts []uint64, recent int) uint64 {
	now, before := uint64(0), uint64(0)
	for i, n := range counts {
		if i < len(counts)-recent {
			before += n
		} else {
			now += n
		}
	}
	return min(before, 2*now)
}

// errorRate converts the rate of a known error.
func errorRate(c converter) {
	core := rateCore(c)
	c.message(1, core.put)
	c.copyFloat(2)
	c.copyInt(3)
	c.copyPositive(4)
	c.copyBool(5)
}

// level is a count and an exposure.
type level struct{ count, exposure float64 }

func (r *reader) level() level { return level{r.float(), r.float()} }

func (l level) put(c converter) {
	c.putFloat(1, l.count)
	c.putFloat(2, l.exposure)
}

// copyLevel copies a level to a nested message.
func (c converter) copyLevel(numbers ...number) {
	for _, n := range numbers {
		c.message(n, c.level().put)
	}
}

// core is the part that all counters of the rule rate-tail share.
type core struct {
	usual                      level
	at, lastError, since, from int64
	state, patience            uint64
	stayed                     bool
	slots                      []uint64
}

// The states of a counter.
const (
	calm = iota
	spiking
)

func rateCore(c converter) (core core) {
	core.usual = c.level()
	core.at, core.lastError, core.since, core.state, core.from = c.int(), c.int(), c.int(), c.uint(), c.int()
	core.stayed, core.patience = c.bool(), c.uint()
	for range 10 {
		core.slots = append(core.slots, c.uint())
	}
	if core.lastError < 0 || core.since < 0 {
		c.fail("a time after the current second")
	}
	return core
}

func (core core) put(c converter) {
	c.message(1, core.usual.put)
	c.putInt(2, core.at)
	c.putUint(3, uint64(core.lastError))
	c.putUint(4, uint64(core.since))
	c.putUint(5, core.state)
	c.putInt(6, core.from)
	c.putBool(7, core.stayed)
	c.putUint(8, core.patience)
	c.putUints(9, core.slots)
}

// rateCounter converts a counter of the rule rate-tail.
func rateCounter(c converter) {
	core := rateCore(c)
	var peak, most, longest uint64
	var usual float64
	var all level
	if core.state != calm {
		peak, usual = c.uint(), c.float()
		if !c.has(lifecycle) {
			all = c.level()
		}
		most, longest = c.uint(), c.uint()
	}
	c.message(1, core.put)
	c.message(2, func(c converter) {
		c.putUint(1, peak)
		c.putFloat(2, usual)
		c.putUint(3, most)
		c.putUint(4, longest)
	})
	if c.has(lifecycle) {
		c.message(3, rateIncident)
		c.copyBool(4)
	} else if core.state == spiking {
		c.message(3, func(c converter) { spikeIncident(c, core, peak, all) })
	}
	c.message(5, func(c converter) { rateScales(c, core.usual) })
	c.message(6, func(c converter) {
		c.copyUint(1, 2)
		c.copyBool(3)
		c.copyLevel(4)
		if c.has(lifecycle) {
			c.copyLevel(5, 6)
		}
	})
	c.message(7, rateRecurring)
	c.message(8, rateDrift)
}

func rateIncident(c converter) {
	grade := c.uint()
	c.putUint(1, grade)
	if grade == 0 {
		return
	}
	c.copyInt(2, 3)
	c.copyUint(4, 5, 6, 7)
	c.copyBool(8)
	c.copyFloat(9)
	c.copyLevel(10)
}

// spikeIncident makes an incident of a spike that was open in a version before 8, which
// had no incidents. The usual rate did not include the errors of a spike then either.
func spikeIncident(c converter, core core, peak uint64, all level) {
	const raised = 2
	const priorCount, priorExposure = 0.5, 1
	c.putUint(1, raised)
	c.putInt(2, core.at-core.from) // core.from is the age of the spike
	c.putUint(6, uint64(max(core.from, 0)))
	c.putUint(7, peak)
	c.putBool(8, true)
	c.putFloat(9, (priorCount+core.usual.count)/(priorExposure+core.usual.exposure))
	c.message(10, all.put)
}

func rateSpread(c converter) {
	c.copyFloat(1, 2)
	if c.has(lifecycle) {
		c.copyFloat(3)
	}
}

// rateScales converts what was learned at several time scales. Before version 8 there was
// one level, usual, with its spread. The rule derives the other levels from it.
func rateScales(c converter, usual level) {
	if !c.has(lifecycle) {
		spread := encode(c.reader, rateSpread)
		c.message(1, func(c converter) {
			usual.put(c)
			c.putMessage(3, spread)
		})
		for _, n := range []number{2, 3} {
			c.message(n, func(c converter) { c.putMessage(3, spread) })
		}
		c.putMessage(7, spread)
		return
	}
	for _, n := range []number{1, 2, 3} {
		c.message(n, func(c converter) {
			spread := encode(c.reader, rateSpread)
			c.level().put(c)
			c.putMessage(3, spread)
			c.copyFloat(4)
		})
	}
	c.copyFloat(4, 5)
	c.copyUint(6)
	c.message(7, rateSpread)
	c.copyUint(8, 9)
	var waiting []uint64
	for range c.count(maxItems) {
		waiting = append(waiting, c.uint())
	}
	c.putUints(10, waiting)
}

func rateBurst(c converter) {
	c.copyInt(1)
	c.copyUint(2, 3)
}

func rateRecurring(c converter) {
	c.items(1, rateBurst)
	c.items(2, func(c converter) {
		c.copyInt(1, 2)
		c.copyUint(3)
		c.copyInt(4)
		c.copyUint(5, 6)
		c.items(7, rateBurst)
	})
	c.copyUint(3)
}

func rateDrift(c converter) {
	c.copyLevel(1)
	c.copyFloat(2)
	c.copyInt(3)
	c.copyFloat(4, 5)
	c.copyBool(6, 7, 8)
	c.copyInt(9)
	c.copyFloat(10, 11)
	if c.has(lifecycle) {
		c.message(12, func(c converter) {
			c.copyFloat(1, 2, 3, 4, 5)
			c.copyBool(6)
		})
	}
}
