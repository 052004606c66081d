package oldsnapshot

import "math"

// manualNoise converts the noise rules that were added by hand.
func manualNoise(c converter) {
	c.items(1, func(c converter) {
		c.copyText(1, 2, 3)
		c.message(4, func(c converter) {
			c.copyUint(1)
			if c.has(trust) {
				c.copyInt(2)
				noiseRecord(c)
			}
		})
	})
}

// noiseRecord converts the events that a rule matched, from the third field on.
func noiseRecord(c converter) {
	list := func(n int, most uint64) (values []uint64) {
		for range n {
			v := c.uint()
			if v > most {
				c.fail("a count of %d", v)
			}
			values = append(values, v)
		}
		return values
	}
	c.copyInt(3, 4)
	c.copyUint(5)
	c.putUints(6, list(4, math.MaxUint64)) // by level
	c.message(7, func(c converter) {
		c.copyInt(1)
		c.putUints(2, list(10, math.MaxUint32)) // by minute
	})
	c.copyTexts(8)
}

// noiseApp converts the patterns and rules of an app.
func noiseApp(c converter) {
	c.copyBool(1)
	c.copyInt(2)
	if c.has(lifecycle) {
		c.copyInt(3)
	}
	c.items(4, noisePattern)
	c.items(5, noiseRule)
	c.items(6, func(c converter) {
		c.copyText(1)
		if c.has(trust) {
			c.copyText(2)
			c.copyUint(3)
		}
	})
}

func noisePattern(c converter) {
	c.copyText(1, 2)
	var times []int64
	last := int64(0)
	for range c.count(maxItems) {
		last += c.int()
		times = append(times, last)
	}
	c.putTimes(3, times)
	if c.has(trust) {
		c.copyUint(4)
	}
	if c.has(lifecycle) {
		c.copyInt(5)
	}
}

func noiseRule(c converter) {
	key, percent, applied, n, lastSeen, example := c.text(), c.uint(), c.bool(), c.uint(), c.int(), c.text()
	c.putText(1, key)
	c.putUint(2, percent)
	c.putBool(3, applied)
	c.putText(4, example)
	c.message(5, func(c converter) {
		c.putUint(1, n)
		c.putInt(2, lastSeen)
		if c.has(trust) {
			noiseRecord(c)
		}
	})
	if !c.has(lifecycle) {
		// Older versions did not record that a check had succeeded. Most have.
		const ofRequests = "r"
		c.putBool(8, key != "" && key[:1] == ofRequests)
		return
	}
	c.copyBool(6, 7, 8)
	c.copyInt(9)
}
