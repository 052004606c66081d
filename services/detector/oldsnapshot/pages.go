package oldsnapshot

// metrics is how many metrics a page had.
const metrics = 6

// pages converts the baselines. Before version 8 an app had one of the two rules.
func pages(c converter) {
	var spec, confirmed []byte
	hasSpec, hasConfirmed := true, false
	switch {
	case c.has(lifecycle):
		hasSpec = c.bool()
	case c.has(trust):
		hasConfirmed = c.upTo(1) == 1
		hasSpec = !hasConfirmed
	}
	if hasSpec {
		spec = encode(c.reader, specPages)
	}
	if c.has(lifecycle) {
		hasConfirmed = c.bool()
	}
	if hasConfirmed {
		confirmed = encode(c.reader, confirmedPages)
	}
	c.putBool(1, hasSpec)
	c.putBool(2, hasConfirmed)
	c.putMessage(3, spec)
	c.putMessage(4, confirmed)
}

// specPages converts the pages of the specification's rule.
func specPages(c converter) {
	c.items(1, func(c converter) {
		c.copyText(1)
		for i := range number(metrics) {
			if n := c.count(maxItems); n > 0 {
				c.item(2+i, func(c converter) { window(c, n) })
			}
		}
	})
}

// window converts a window of n loads, with its incident.
func window(c converter, n int) {
	loads := make([]uint64, n)
	for i := range loads {
		loads[i] = c.positive()
	}
	c.putUints(1, loads)
	c.message(2, openAlerts)
	if c.has(lifecycle) && c.bool() {
		c.item(3, func(c converter) {
			c.copyUint(1)
			c.copyPositive(2, 3, 4)
			c.copyTime(5)
			c.copyUint(6, 7, 8)
		})
	}
}

// confirmedPages converts the pages of the statistical rule.
func confirmedPages(c converter) {
	c.items(1, func(c converter) {
		c.copyText(1)
		for i := range number(metrics) {
			if c.bool() {
				c.item(2+i, series)
			}
		}
	})
}

// series converts a metric of a page: its values, its open alerts, and either the change
// that is suspected or how the last one ended.
func series(c converter) {
	values, suspected := levelSeries(c)
	alerts := encode(c.reader, openAlerts)
	c.putMessage(1, values)
	c.putMessage(2, alerts)
	switch {
	case suspected:
		c.copyUint(3)
		if c.has(lifecycle) {
			c.copyTime(4)
		}
	case len(alerts) > 0:
		c.message(5, func(c converter) {
			c.copyUint(1, 2, 3, 4)
			c.copyPositive(5, 6)
		})
	}
}

// levelSeries converts a series of values, and reports whether a change is suspected.
func levelSeries(c converter) (converted []byte, suspected bool) {
	list := func() (values []uint64) {
		for range c.count(maxItems) {
			values = append(values, c.positive())
		}
		return values
	}
	reference, newest := list(), list()
	var past []uint64
	kept, noise := uint64(0), 0.0
	if c.has(lifecycle) {
		past, kept, noise = list(), c.uint(), c.float()
	}
	confidence := c.uint()
	return encode(c.reader, func(c converter) {
		c.putUints(1, reference)
		c.putUints(2, newest)
		c.putUints(3, past)
		c.putUint(4, kept)
		c.putFloat(5, noise)
		c.putUint(6, confidence)
		c.copyBool(7)
		forget := c.uint()
		c.putUint(8, forget)
		if forget > 0 {
			c.copyPositive(9)
		}
		if confidence > 0 {
			c.copyUint(10, 11, 12)
			c.copyPositive(13)
		}
	}), confidence > 0
}
