package oldsnapshot

// appState converts the state of one app. newest is the time of the newest message.
func appState(c converter, newest int64) {
	// The old order is another one than that of the field numbers.
	read := func(part func(converter)) []byte { return encode(c.reader, part) }
	regressions, errors := read(pages), read(knownErrors)
	logs, requests := read(signal), read(signal)
	noise, thresholds, targets := read(noiseApp), read(thresholds), read(frustration)
	regression, anomaly := read(lastAlert), read(lastAlert)
	var releases, escalation []byte
	if c.has(trust) {
		releases, escalation = read(releaseList), read(lastAlert)
	}
	c.message(1, func(c converter) { age(c, newest) })
	outcomes := read(outcomes)
	c.putMessage(2, noise)
	c.putMessage(3, releases)
	c.message(5, func(c converter) {
		c.putMessage(1, regression)
		c.putMessage(2, anomaly)
		c.putMessage(3, escalation)
	})
	c.putMessage(ruleErrors, errors)
	c.message(ruleSpikes, func(c converter) {
		c.putMessage(1, logs)
		c.putMessage(2, requests)
		c.putMessage(3, outcomes)
	})
	c.putMessage(19, regressions)
	c.putMessage(20, targets)
	c.putMessage(21, thresholds)
}

// lastAlert converts the newest alert of a kind, which others may name as related.
func lastAlert(c converter) {
	id, at := c.text(), c.int()
	if id != "" {
		c.putText(1, id)
		c.putTime(2, at)
	}
}

// age converts the age of an app. Before version 8 there was none: the app is known.
func age(c converter, newest int64) {
	first, last, grown, raised, number := newest, newest, true, true, uint64(0)
	if c.has(lifecycle) {
		first, last, grown, raised, number = c.int(), c.int(), c.bool(), c.bool(), c.uint()
	}
	c.putTime(1, first)
	c.putTime(2, last)
	c.putBool(3, grown)
	c.putBool(4, raised)
	c.putUint(5, number)
}

// outcomes converts the requests of the last 10 s.
func outcomes(c converter) {
	if !c.has(lifecycle) {
		return
	}
	c.copyInt(1)
	for i := range number(10) {
		c.message(2+i, func(c converter) { c.copyUint(1, 2) })
	}
}

// signal converts the counters of one signal. Before version 7 there was one rule.
func signal(c converter) {
	if !c.has(trust) || c.bool() {
		c.item(1, ratioCounter)
	}
	if c.has(trust) && c.bool() {
		c.item(2, rateCounter)
	}
}

// knownErrors converts the errors of an app. Before version 7 they were known by the
// template of their message, and neither counted nor named.
func knownErrors(c converter) {
	c.items(1, func(c converter) {
		fingerprint, last := c.uint(), c.int()
		age, seen, other, version, adopts := int64(0), int64(1), uint64(0), uint64(1), last
		var rate []byte
		if c.has(trust) {
			age, seen, other, version, adopts = c.int(), c.int(), c.uint(), c.uint(), c.int()
			if c.bool() {
				rate = encode(c.reader, errorRate)
			}
		}
		if seen < 1 {
			c.fail("an error that was seen %d times", seen)
		}
		c.putHash(1, fingerprint)
		c.putInt(2, last)
		c.putInt(3, age)
		c.putUint(4, uint64(seen))
		c.putHash(5, other)
		c.putUint(6, version)
		c.putInt(7, adopts)
		c.putMessage(8, rate)
	})
}

func thresholds(c converter) {
	state := func(c converter) {
		c.copyUint(1)
		if c.has(resolutions) {
			c.copyUint(2)
		}
		c.message(3, openAlerts)
	}
	c.message(1, state)
	c.items(2, func(c converter) {
		c.copyText(1)
		c.message(2, state)
	})
}

func frustration(c converter) {
	c.items(1, func(c converter) {
		c.copyHash(1)
		c.copyInt(2, 3)
		c.copyBool(4)
	})
}

func releaseList(c converter) {
	c.items(1, func(c converter) {
		c.copyText(1)
		c.copyInt(2)
	})
}

// openAlerts converts the alerts with one key that are open.
func openAlerts(c converter) {
	const severities = 3
	if !c.has(resolutions) {
		return
	}
	for range c.count(maxItems) {
		id, rank := c.text(), c.upTo(2*severities)
		otherKey := rank > severities // raised by a rule that used another key
		if otherKey {
			rank -= severities
		}
		if rank < 1 || otherKey && !c.has(trust) {
			c.fail("an open alert without a severity")
			return
		}
		c.item(1, func(c converter) {
			c.putText(1, id)
			c.putUint(2, uint64(rank))
			c.putBool(3, otherKey)
		})
	}
}
