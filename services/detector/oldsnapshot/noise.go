package oldsnapshot

import (
	"math"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// manual converts the noise rules that were added by hand.
func manual(r *reader) []byte {
	return message(func(s *snapshot.State) {
		for range r.count(maxItems) {
			app, kind, pattern, n := r.text(maxText), r.text(maxText), r.text(maxText), r.uint()
			seen := message(func(s *snapshot.State) {
				putUint(s, 1, n)
				if r.has(trust) {
					putInt(s, 2, r.int())
					noiseRecord(r, s)
				}
			})
			putItem(s, 1, message(func(s *snapshot.State) {
				putText(s, 1, app)
				putText(s, 2, kind)
				putText(s, 3, pattern)
				putMessage(s, 4, seen)
			}))
		}
	})
}

// noiseRecord converts what a rule matched, but for the first two fields.
func noiseRecord(r *reader, s *snapshot.State) {
	putInt(s, 3, r.int())
	putInt(s, 4, r.int())
	putUint(s, 5, r.uint())
	list := func(n int, most uint64) (values []uint64) {
		for range n {
			v := r.uint()
			if v > most {
				r.fail("a count of %d", v)
			}
			values = append(values, v)
		}
		return values
	}
	levels := list(4, math.MaxUint64)
	snapshot.Packed(s, 6, levels, 0, 0)
	putMessage(s, 7, message(func(s *snapshot.State) {
		putInt(s, 1, r.int())
		minutes := list(10, math.MaxUint32)
		snapshot.Packed(s, 2, minutes, 0, 0)
	}))
	var examples []string
	for range r.count(maxItems) {
		examples = append(examples, r.text(maxText))
	}
	snapshot.Strings(s, 8, &examples, 0, 0)
}

// noiseApp converts the patterns and rules of an app.
func noiseApp(r *reader) []byte {
	return message(func(s *snapshot.State) {
		putBool(s, 1, r.bool())
		putInt(s, 2, r.int())
		if r.has(lifecycle) {
			putInt(s, 3, r.int())
		}
		for range r.count(maxItems) {
			putItem(s, 4, noisePattern(r))
		}
		for range r.count(maxItems) {
			putItem(s, 5, noiseRule(r))
		}
		for range r.count(maxItems) {
			putItem(s, 6, message(func(s *snapshot.State) {
				putText(s, 1, r.text(maxText))
				if r.has(trust) {
					putText(s, 2, r.text(maxText))
					putUint(s, 3, r.uint())
				}
			}))
		}
	})
}

func noisePattern(r *reader) []byte {
	return message(func(s *snapshot.State) {
		putText(s, 1, r.text(maxText))
		putText(s, 2, r.text(maxText))
		var times []int64
		last := int64(0)
		for range r.count(maxItems) {
			last += r.int()
			times = append(times, last)
		}
		s.PackedTimes(3, times, 0)
		if r.has(trust) {
			putUint(s, 4, r.uint())
		}
		if r.has(lifecycle) {
			putInt(s, 5, r.int())
		}
	})
}

func noiseRule(r *reader) []byte {
	return message(func(s *snapshot.State) {
		key, percent, applied, n, lastSeen, example := r.text(maxText), r.uint(), r.bool(), r.uint(), r.int(), r.text(maxText)
		putText(s, 1, key)
		putUint(s, 2, percent)
		putBool(s, 3, applied)
		putText(s, 4, example)
		putMessage(s, 5, message(func(s *snapshot.State) {
			putUint(s, 1, n)
			putInt(s, 2, lastSeen)
			if r.has(trust) {
				noiseRecord(r, s)
			}
		}))
		if !r.has(lifecycle) {
			// Older versions did not note that a check had succeeded. Most have.
			const ofRequests = "r"
			putBool(s, 8, key != "" && key[:1] == ofRequests)
			return
		}
		putBool(s, 6, r.bool())
		putBool(s, 7, r.bool())
		putBool(s, 8, r.bool())
		putInt(s, 9, r.int())
	})
}
