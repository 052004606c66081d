package oldsnapshot

// The rules as open incidents name them, by the numbers of their fields in an app.
const (
	ruleErrors = 16
	ruleSpikes = 18
)

// foldState converts the state of the fold.
func foldState(c converter) {
	newest := c.int()
	c.putTime(1, newest)
	c.message(2, manualNoise)
	c.message(3, ciResults)
	c.message(4, externalAlerts)
	c.message(5, limiter)
	for range c.count(maxItems) {
		name, encoded := c.text(), c.raw(len(c.rest))
		if c.err != nil {
			return
		}
		app := &reader{rest: encoded, version: c.version}
		state := encode(app, func(c converter) { appState(c, newest) })
		if err := app.close(); err != nil {
			c.fail("app %q: %v", name, err)
			return
		}
		c.item(6, func(c converter) {
			c.putText(1, name)
			c.putMessage(2, state)
		})
	}
	openSpikes(c, true)
	if c.has(trust) {
		if !c.has(lifecycle) {
			openSpikes(c, false) // those of the shadow mode, which no longer exists
		}
		escalations(c)
	}
	if c.has(lifecycle) {
		c.message(8, budget)
		c.message(9, untracked)
	}
}

// openSpikes reads the open spikes and drifts, and converts them unless keep is false.
func openSpikes(c converter, keep bool) {
	if !c.has(resolutions) {
		return
	}
	for range c.count(maxItems) {
		app, logs, finder := c.text(), c.bool(), uint64(0)
		if c.has(trust) {
			finder = uint64(c.upTo(2))
		}
		id, key := c.text(), 2*finder
		if !logs {
			key++
		}
		if keep {
			c.putIncident(app, ruleSpikes, key, id, "", "")
		}
	}
}

// escalations converts the errors that escalate, but not those of the shadow mode.
func escalations(c converter) {
	for range c.count(maxItems) {
		app, fingerprint, id, title, name := c.text(), c.uint(), c.text(), c.text(), c.text()
		if !c.has(lifecycle) && c.bool() {
			continue
		}
		c.putIncident(app, ruleErrors, fingerprint, id, title, name)
	}
}

func (c converter) putIncident(app string, rule, key uint64, id, title, name string) {
	c.item(7, func(c converter) {
		c.putText(1, app)
		c.putUint(2, rule)
		c.putHash(3, key)
		c.putText(4, id)
		c.putText(5, title)
		c.putText(6, name)
	})
}

// untracked converts the apps that are not tracked.
func untracked(c converter) {
	c.items(1, func(c converter) {
		c.copyHash(1)
		c.copyTime(2)
	})
}

func ciResults(c converter) {
	failures := func(c converter) {
		c.message(1, openAlerts)
		c.copyText(2)
	}
	c.items(1, func(c converter) {
		c.copyBytes(1)
		c.copyText(2)
		c.copyUint(3)
		c.copyText(4)
		if c.has(resolutions) {
			c.message(5, failures)
		}
	})
	if c.has(resolutions) {
		c.items(2, func(c converter) {
			c.copyBytes(1)
			c.message(2, failures)
		})
	}
}

func externalAlerts(c converter) {
	c.items(1, func(c converter) {
		c.copyBytes(1)
		c.copyBool(2)
		c.copyText(3, 4)
		if c.has(resolutions) {
			c.copyText(5)
		}
	})
}

// limiter converts the repetitions of each key.
func limiter(c converter) {
	c.items(1, func(c converter) {
		key, suppressed := c.text(), c.uint()
		var times []int64
		for range c.count(maxItems) {
			times = append(times, c.int())
		}
		c.putText(1, key)
		c.putTimes(2, times)
		c.putUint(3, suppressed)
	})
}

// budget converts the storm limits of each app and of all apps.
func budget(c converter) {
	c.copyInt(1)
	c.copyPositive(2, 3)
	c.items(4, func(c converter) {
		c.copyText(1)
		c.copyPositive(2, 3)
		c.copyBool(4)
		c.message(5, suppressedAlerts)
	})
}

// categories is how many categories of alerts version 8 had.
const categories = 10

// suppressedAlerts converts the alerts that a storm limit suppressed.
func suppressedAlerts(c converter) {
	total := c.uint()
	c.putUint(1, total)
	if total == 0 {
		return
	}
	c.copyInt(2)
	var hashes, counts []uint64
	for range c.count(maxItems) {
		hashes = append(hashes, c.uint())
	}
	for range categories {
		counts = append(counts, c.uint())
	}
	c.s.Hashes(3, hashes, 0)
	c.putUints(4, counts)
	c.copyUint(5)
	c.copyTexts(6)
}
