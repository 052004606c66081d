package oldsnapshot

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// errorTrack converts the errors of an app. Before version 7 they were known by the
// template of their message, and neither counted nor named.
func errorTrack(r *reader) []byte {
	return message(func(s *snapshot.State) {
		for range r.count(maxItems) {
			putItem(s, 1, message(func(s *snapshot.State) {
				fingerprint, last := r.uint(), r.int()
				age, seen, other, version, adopts := int64(0), int64(1), uint64(0), uint64(1), last
				var rate []byte
				if r.has(trust) {
					age, seen, other, version, adopts = r.int(), r.int(), r.uint(), r.uint(), r.int()
					if r.bool() {
						rate = errorRate(r)
					}
				}
				if seen < 1 {
					r.fail("an error that was seen %d times", seen)
				}
				putHash(s, 1, fingerprint)
				putInt(s, 2, last)
				putInt(s, 3, age)
				putUint(s, 4, uint64(seen))
				putHash(s, 5, other)
				putUint(s, 6, version)
				putInt(s, 7, adopts)
				if rate != nil {
					putItem(s, 8, rate)
				}
			}))
		}
	})
}

func errorRate(r *reader) []byte {
	return message(func(s *snapshot.State) {
		putMessage(s, 1, rateCore(r).fields())
		putFloat(s, 2, r.float())
		putInt64(s, 3, r)
		putUint(s, 4, positive(r))
		putBool(s, 5, r.bool())
	})
}

func putInt64(s *snapshot.State, number protowire.Number, r *reader) { putInt(s, number, r.int()) }

// anomalyCounter converts a counter of the rule by ratio.
func anomalyCounter(r *reader) []byte {
	room, n := r.uint(), r.count(maxItems)
	var times []int64
	var counts []uint64
	last := int64(0)
	for range n {
		last += r.int()
		times, counts = append(times, last), append(counts, positive(r))
	}
	recent, open, opened := r.uint(), r.bool(), r.uint()
	var frozen, calmSince, returned, moved uint64
	var calm, stayed bool
	switch {
	case r.has(lifecycle):
		frozen, calm, calmSince, returned, stayed, moved = r.uint(), r.bool(), r.uint(), r.uint(), r.bool(), r.uint()
	case r.has(resolutions): // open was for how long none was found
		open, moved = r.bool(), r.uint()
	}
	if open && !r.has(lifecycle) && recent <= uint64(n) {
		frozen = frozenAverage(counts, int(recent))
	}
	return message(func(s *snapshot.State) {
		putUint(s, 1, room)
		s.PackedTimes(2, times, 0)
		snapshot.Packed(s, 3, counts, 0, 0)
		putUint(s, 4, recent)
		putBool(s, 5, open)
		putUint(s, 6, opened)
		putUint(s, 7, frozen)
		putBool(s, 8, calm)
		putUint(s, 9, calmSince)
		putUint(s, 10, returned)
		putBool(s, 11, stayed)
		putUint(s, 12, moved)
	})
}

// frozenAverage is what the average of before an open spike is taken to be, which
// versions before 8 did not keep. The minute before may hold errors of the spike; when
// that was found, its count was more than 3 times the average.
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

// core is what the counters of the rule by rate have in common.
type core struct {
	usual                      [2]float64
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

func rateCore(r *reader) (c core) {
	c.usual = rateLevel(r)
	c.at, c.lastError, c.since, c.state, c.from = r.int(), r.int(), r.int(), r.uint(), r.int()
	c.stayed, c.patience = r.bool(), r.uint()
	for range 10 {
		c.slots = append(c.slots, r.uint())
	}
	if c.lastError < 0 || c.since < 0 {
		r.fail("what is known comes later than now")
	}
	return c
}

func (c core) fields() []byte {
	return message(func(s *snapshot.State) {
		putMessage(s, 1, levelMessage(c.usual))
		putInt(s, 2, c.at)
		putUint(s, 3, uint64(c.lastError))
		putUint(s, 4, uint64(c.since))
		putUint(s, 5, c.state)
		putInt(s, 6, c.from)
		putBool(s, 7, c.stayed)
		putUint(s, 8, c.patience)
		snapshot.Packed(s, 9, c.slots, 0, 0)
	})
}

// rateLevel reads a count and an exposure.
func rateLevel(r *reader) [2]float64 { return [2]float64{r.float(), r.float()} }

func levelMessage(level [2]float64) []byte {
	return message(func(s *snapshot.State) {
		putFloat(s, 1, level[0])
		putFloat(s, 2, level[1])
	})
}

// rateCounter converts a counter of the rule by rate.
func rateCounter(r *reader) []byte {
	c := rateCore(r)
	var peak, most, longest uint64
	var usual float64
	var all [2]float64
	if c.state != calm {
		peak, usual = r.uint(), r.float()
		if !r.has(lifecycle) {
			all = rateLevel(r)
		}
		most, longest = r.uint(), r.uint()
	}
	episode := message(func(s *snapshot.State) {
		putUint(s, 1, peak)
		putFloat(s, 2, usual)
		putUint(s, 3, most)
		putUint(s, 4, longest)
	})
	incident, wasNoted := []byte(nil), false
	if r.has(lifecycle) {
		incident, wasNoted = rateIncident(r), r.bool()
	} else if c.state == spiking {
		incident = adoptedIncident(c, peak, all)
	}
	scales := rateScales(r, c.usual)
	block := message(func(s *snapshot.State) {
		putUint(s, 1, r.uint())
		putUint(s, 2, r.uint())
		putBool(s, 3, r.bool())
		putMessage(s, 4, levelMessage(rateLevel(r)))
		if r.has(lifecycle) {
			putMessage(s, 5, levelMessage(rateLevel(r)))
			putMessage(s, 6, levelMessage(rateLevel(r)))
		}
	})
	recurring, drift := rateRecurring(r), rateDrift(r)
	return message(func(s *snapshot.State) {
		putMessage(s, 1, c.fields())
		putMessage(s, 2, episode)
		putMessage(s, 3, incident)
		putBool(s, 4, wasNoted)
		putMessage(s, 5, scales)
		putMessage(s, 6, block)
		putMessage(s, 7, recurring)
		putMessage(s, 8, drift)
	})
}

func rateIncident(r *reader) []byte {
	return message(func(s *snapshot.State) {
		grade := r.uint()
		putUint(s, 1, grade)
		if grade == 0 {
			return
		}
		putInt(s, 2, r.int())
		putInt(s, 3, r.int())
		for i := range 4 {
			putUint(s, protowire.Number(4+i), r.uint())
		}
		putBool(s, 8, r.bool())
		putFloat(s, 9, r.float())
		putMessage(s, 10, levelMessage(rateLevel(r)))
	})
}

// adoptedIncident makes an incident of the spike that a version before 8 had open. What
// is usual was kept apart from it then, too.
func adoptedIncident(c core, peak uint64, all [2]float64) []byte {
	const raised = 2
	const priorCount, priorExposure = 0.5, 1
	return message(func(s *snapshot.State) {
		putUint(s, 1, raised)
		putInt(s, 2, c.at-c.from)
		putUint(s, 6, uint64(max(c.from, 0))) // c.from is how long it has continued
		putUint(s, 7, peak)
		putBool(s, 8, true)
		putFloat(s, 9, (priorCount+c.usual[0])/(priorExposure+c.usual[1]))
		putMessage(s, 10, levelMessage(all))
	})
}

func rateSpread(r *reader) []byte {
	return message(func(s *snapshot.State) {
		putFloat(s, 1, r.float())
		putFloat(s, 2, r.float())
		if r.has(lifecycle) {
			putFloat(s, 3, r.float())
		}
	})
}

// rateScales converts what is learned at several time scales. Before version 8 there was
// one level, which is usual, with its spread; the rule makes the other levels of it.
func rateScales(r *reader, usual [2]float64) []byte {
	scale := func(spread, level []byte, score float64) []byte {
		return message(func(s *snapshot.State) {
			s.Append(level)
			putMessage(s, 3, spread)
			putFloat(s, 4, score)
		})
	}
	if !r.has(lifecycle) {
		known := rateSpread(r)
		return message(func(s *snapshot.State) {
			putMessage(s, 1, scale(known, levelMessage(usual), 0))
			putMessage(s, 2, scale(known, nil, 0))
			putMessage(s, 3, scale(known, nil, 0))
			putMessage(s, 7, known)
		})
	}
	return message(func(s *snapshot.State) {
		for i := range 3 {
			spread, level, score := rateSpread(r), levelMessage(rateLevel(r)), r.float()
			putMessage(s, protowire.Number(1+i), scale(spread, level, score))
		}
		putFloat(s, 4, r.float())
		putFloat(s, 5, r.float())
		putUint(s, 6, r.uint())
		putMessage(s, 7, rateSpread(r))
		putUint(s, 8, r.uint())
		putUint(s, 9, r.uint())
		var waiting []uint64
		for range r.count(maxItems) {
			waiting = append(waiting, r.uint())
		}
		snapshot.Packed(s, 10, waiting, 0, 0)
	})
}

func rateBurst(r *reader) []byte {
	return message(func(s *snapshot.State) {
		putInt(s, 1, r.int())
		putUint(s, 2, r.uint())
		putUint(s, 3, r.uint())
	})
}

func rateRecurring(r *reader) []byte {
	return message(func(s *snapshot.State) {
		for range r.count(maxItems) {
			putItem(s, 1, rateBurst(r))
		}
		for range r.count(maxItems) {
			putItem(s, 2, message(func(s *snapshot.State) {
				putInt(s, 1, r.int())
				putInt(s, 2, r.int())
				putUint(s, 3, r.uint())
				putInt(s, 4, r.int())
				putUint(s, 5, r.uint())
				putUint(s, 6, r.uint())
				for range r.count(maxItems) {
					putItem(s, 7, rateBurst(r))
				}
			}))
		}
		putUint(s, 3, r.uint())
	})
}

func rateDrift(r *reader) []byte {
	return message(func(s *snapshot.State) {
		putMessage(s, 1, levelMessage(rateLevel(r)))
		putFloat(s, 2, r.float())
		putInt(s, 3, r.int())
		putFloat(s, 4, r.float())
		putFloat(s, 5, r.float())
		for i := range 3 {
			putBool(s, protowire.Number(6+i), r.bool())
		}
		putInt(s, 9, r.int())
		putFloat(s, 10, r.float())
		putFloat(s, 11, r.float())
		if !r.has(lifecycle) {
			return
		}
		putMessage(s, 12, message(func(s *snapshot.State) {
			for i := range 5 {
				putFloat(s, protowire.Number(1+i), r.float())
			}
			putBool(s, 6, r.bool())
		}))
	})
}
