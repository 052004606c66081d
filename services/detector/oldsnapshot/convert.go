package oldsnapshot

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// Bounds on what a snapshot holds, each larger than what any version kept.
const (
	maxItems  = 1 << 20
	maxText   = 1 << 17
	maxNumber = 1 << 62
)

func milliseconds(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// convert converts the state of the fold.
func convert(r *reader, s *snapshot.State) {
	newest := r.int()
	putTime(s, 1, newest)
	putMessage(s, 2, manual(r))
	putMessage(s, 3, ciResults(r))
	putMessage(s, 4, external(r))
	putMessage(s, 5, limiter(r))
	for range r.count(maxItems) {
		name, encoded := r.text(maxText), r.raw(len(r.rest))
		if r.err != nil {
			return
		}
		app := &reader{rest: encoded, version: r.version}
		state := appState(app, newest)
		if err := app.close(); err != nil {
			r.fail("app %q: %v", name, err)
			return
		}
		putItem(s, 6, message(func(s *snapshot.State) {
			putText(s, 1, name)
			putMessage(s, 2, state)
		}))
	}
	spikes(r, s)
	if r.has(trust) {
		if !r.has(lifecycle) {
			spikes(r, nil) // those of the shadow mode, which is gone
		}
		escalations(r, s)
	}
	if r.has(lifecycle) {
		putMessage(s, 8, budget(r))
		putMessage(s, 9, untracked(r))
	}
}

// The rules as open incidents name them, by the numbers of their fields in an app.
const (
	ruleErrors = 16
	ruleSpikes = 18
)

// spikes converts the spikes and drifts that are open. With a nil s it skips them.
func spikes(r *reader, s *snapshot.State) {
	if !r.has(resolutions) {
		return
	}
	for range r.count(maxItems) {
		app, logs, finder := r.text(maxText), r.bool(), uint64(0)
		if r.has(trust) {
			finder = uint64(r.upTo(2))
		}
		id, key := r.text(maxText), 2*finder
		if !logs {
			key++
		}
		if s != nil {
			putIncident(s, app, ruleSpikes, key, id, "", "")
		}
	}
}

// escalations converts the errors that escalate, but not those of the shadow mode.
func escalations(r *reader, s *snapshot.State) {
	for range r.count(maxItems) {
		app, fingerprint, id, title, name := r.text(maxText), r.uint(), r.text(maxText), r.text(maxText), r.text(maxText)
		if !r.has(lifecycle) && r.bool() {
			continue
		}
		putIncident(s, app, ruleErrors, fingerprint, id, title, name)
	}
}

func putIncident(s *snapshot.State, app string, rule, key uint64, id, title, name string) {
	putItem(s, 7, message(func(s *snapshot.State) {
		putText(s, 1, app)
		putUint(s, 2, rule)
		putHash(s, 3, key)
		putText(s, 4, id)
		putText(s, 5, title)
		putText(s, 6, name)
	}))
}

// untracked converts the apps that are not tracked.
func untracked(r *reader) []byte {
	return message(func(s *snapshot.State) {
		for range r.count(maxItems) {
			hash, at := r.uint(), r.int()
			putItem(s, 1, message(func(s *snapshot.State) {
				putHash(s, 1, hash)
				putTime(s, 2, at)
			}))
		}
	})
}

// appState converts the state of one app. newest is the time of the newest message.
func appState(r *reader, newest int64) []byte {
	regressions, errors := pages(r), errorTrack(r)
	logs, requests := signal(r), signal(r)
	noise, thresholds, targets := noiseApp(r), thresholds(r), frustration(r)
	regression, anomaly := link(r), link(r)
	var releases, escalation []byte
	if r.has(trust) {
		releases, escalation = releaseList(r), link(r)
	}
	age, outcomes := age(r, newest), outcomes(r)
	return message(func(s *snapshot.State) {
		putMessage(s, 1, age)
		putMessage(s, 2, noise)
		putMessage(s, 3, releases)
		putMessage(s, 5, message(func(s *snapshot.State) {
			putMessage(s, 1, regression)
			putMessage(s, 2, anomaly)
			putMessage(s, 3, escalation)
		}))
		putMessage(s, ruleErrors, errors)
		putMessage(s, ruleSpikes, message(func(s *snapshot.State) {
			putMessage(s, 1, logs)
			putMessage(s, 2, requests)
			putMessage(s, 3, outcomes)
		}))
		putMessage(s, 19, regressions)
		putMessage(s, 20, targets)
		putMessage(s, 21, thresholds)
	})
}

func link(r *reader) []byte {
	id, at := r.text(maxText), r.int()
	return message(func(s *snapshot.State) {
		if id != "" {
			putText(s, 1, id)
			putTime(s, 2, at)
		}
	})
}

// age converts the age of an app. Before version 8 there was none: the app is known.
func age(r *reader, newest int64) []byte {
	first, last, grown, raised, number := newest, newest, true, true, uint64(0)
	if r.has(lifecycle) {
		first, last, grown, raised, number = r.int(), r.int(), r.bool(), r.bool(), r.uint()
	}
	return message(func(s *snapshot.State) {
		putTime(s, 1, first)
		putTime(s, 2, last)
		putBool(s, 3, grown)
		putBool(s, 4, raised)
		putUint(s, 5, number)
	})
}

// outcomes converts the requests of the last 10 s.
func outcomes(r *reader) []byte {
	if !r.has(lifecycle) {
		return nil
	}
	return message(func(s *snapshot.State) {
		putInt(s, 1, r.int())
		for i := range 10 {
			all, failed := r.uint(), r.uint()
			putMessage(s, protowire.Number(2+i), message(func(s *snapshot.State) {
				putUint(s, 1, all)
				putUint(s, 2, failed)
			}))
		}
	})
}

// signal converts the counters of one signal. Before version 7 there was one rule.
func signal(r *reader) []byte {
	var ratio, tail []byte
	hasRatio, hasTail := true, false
	if r.has(trust) {
		hasRatio = r.bool()
	}
	if hasRatio {
		ratio = anomalyCounter(r)
	}
	if r.has(trust) {
		hasTail = r.bool()
	}
	if hasTail {
		tail = rateCounter(r)
	}
	return message(func(s *snapshot.State) {
		if hasRatio {
			putItem(s, 1, ratio)
		}
		if hasTail {
			putItem(s, 2, tail)
		}
	})
}

// pages converts the baselines. Before version 8 an app had one of the two rules.
func pages(r *reader) []byte {
	var spec, confirmed []byte
	hasSpec, hasConfirmed := true, false
	switch {
	case r.has(lifecycle):
		hasSpec = r.bool()
	case r.has(trust):
		hasConfirmed = r.upTo(1) == 1
		hasSpec = !hasConfirmed
	}
	if hasSpec {
		spec = specPages(r)
	}
	if r.has(lifecycle) {
		hasConfirmed = r.bool()
	}
	if hasConfirmed {
		confirmed = confirmedPages(r)
	}
	return message(func(s *snapshot.State) {
		putBool(s, 1, hasSpec)
		putBool(s, 2, hasConfirmed)
		putMessage(s, 3, spec)
		putMessage(s, 4, confirmed)
	})
}

// open converts the alerts of one thing that are open.
func open(r *reader) []byte {
	const severities = 3
	return message(func(s *snapshot.State) {
		if !r.has(resolutions) {
			return
		}
		for range r.count(maxItems) {
			id, rank := r.text(maxText), r.upTo(2*severities)
			apart := rank > severities // of a rule whose earlier alerts had another key
			if apart {
				rank -= severities
			}
			if rank < 1 || apart && !r.has(trust) {
				r.fail("an open alert without a severity")
				return
			}
			putItem(s, 1, message(func(s *snapshot.State) {
				putText(s, 1, id)
				putUint(s, 2, uint64(rank))
				putBool(s, 3, apart)
			}))
		}
	})
}

// specPages converts the pages of the specification's rule.
func specPages(r *reader) []byte {
	return message(func(s *snapshot.State) {
		for range r.count(maxItems) {
			name := r.text(maxText)
			putItem(s, 1, message(func(s *snapshot.State) {
				putText(s, 1, name)
				for i := range metrics {
					if w := window(r); w != nil {
						putItem(s, protowire.Number(2+i), w)
					}
				}
			}))
		}
	})
}

// metrics is how many metrics a page had.
const metrics = 6

func window(r *reader) []byte {
	n := r.count(maxItems)
	if n == 0 {
		return nil
	}
	loads := make([]uint64, n)
	for i := range loads {
		loads[i] = positive(r)
	}
	return message(func(s *snapshot.State) {
		snapshot.Packed(s, 1, loads, 0, 0)
		putMessage(s, 2, open(r))
		if !r.has(lifecycle) || !r.bool() {
			return
		}
		putItem(s, 3, message(func(s *snapshot.State) {
			putUint(s, 1, r.uint())
			putUint(s, 2, positive(r))
			putUint(s, 3, positive(r))
			putUint(s, 4, positive(r))
			putTime(s, 5, r.int())
			putUint(s, 6, r.uint())
			putUint(s, 7, r.uint())
			putUint(s, 8, r.uint())
		}))
	})
}

// positive reads a signed number that is not negative.
func positive(r *reader) uint64 {
	v := r.int()
	if v < 0 {
		r.fail("a value of %d", v)
		return 0
	}
	return uint64(v)
}

// confirmedPages converts the pages of the confirmed rule.
func confirmedPages(r *reader) []byte {
	return message(func(s *snapshot.State) {
		for range r.count(maxItems) {
			key := r.text(maxText)
			putItem(s, 1, message(func(s *snapshot.State) {
				putText(s, 1, key)
				for i := range metrics {
					if r.bool() {
						putItem(s, protowire.Number(2+i), series(r))
					}
				}
			}))
		}
	})
}

func series(r *reader) []byte {
	values, found := levelSeries(r)
	alerts := open(r)
	return message(func(s *snapshot.State) {
		putMessage(s, 1, values)
		putMessage(s, 2, alerts)
		switch {
		case found:
			putUint(s, 3, r.uint())
			if r.has(lifecycle) {
				putTime(s, 4, r.int())
			}
		case len(alerts) > 0:
			putMessage(s, 5, message(func(s *snapshot.State) {
				for i := range 4 {
					putUint(s, protowire.Number(1+i), r.uint())
				}
				putUint(s, 5, positive(r))
				putUint(s, 6, positive(r))
			}))
		}
	})
}

// levelSeries converts a series of values, and reports whether a change is suspected.
func levelSeries(r *reader) (converted []byte, found bool) {
	list := func() (values []uint64) {
		for range r.count(maxItems) {
			values = append(values, positive(r))
		}
		return values
	}
	reference, newest := list(), list()
	var past []uint64
	kept, noise := uint64(0), 0.0
	if r.has(lifecycle) {
		past, kept, noise = list(), r.uint(), r.float()
	}
	confidence := r.uint()
	return message(func(s *snapshot.State) {
		snapshot.Packed(s, 1, reference, 0, 0)
		snapshot.Packed(s, 2, newest, 0, 0)
		snapshot.Packed(s, 3, past, 0, 0)
		putUint(s, 4, kept)
		putFloat(s, 5, noise)
		putUint(s, 6, confidence)
		putBool(s, 7, r.bool())
		forget := r.uint()
		putUint(s, 8, forget)
		if forget > 0 {
			putUint(s, 9, positive(r))
		}
		if confidence > 0 {
			putUint(s, 10, r.uint())
			putUint(s, 11, r.uint())
			putUint(s, 12, r.uint())
			putUint(s, 13, positive(r))
		}
	}), confidence > 0
}

func thresholds(r *reader) []byte {
	state := func() []byte {
		return message(func(s *snapshot.State) {
			putUint(s, 1, r.uint())
			if r.has(resolutions) {
				putUint(s, 2, r.uint())
			}
			putMessage(s, 3, open(r))
		})
	}
	return message(func(s *snapshot.State) {
		putMessage(s, 1, state())
		for range r.count(maxItems) {
			name := r.text(maxText)
			putItem(s, 2, message(func(s *snapshot.State) {
				putText(s, 1, name)
				putMessage(s, 2, state())
			}))
		}
	})
}

func frustration(r *reader) []byte {
	return message(func(s *snapshot.State) {
		for range r.count(maxItems) {
			putItem(s, 1, message(func(s *snapshot.State) {
				putHash(s, 1, r.uint())
				putInt(s, 2, r.int())
				putInt(s, 3, r.int())
				putBool(s, 4, r.bool())
			}))
		}
	})
}

func releaseList(r *reader) []byte {
	return message(func(s *snapshot.State) {
		for range r.count(maxItems) {
			putItem(s, 1, message(func(s *snapshot.State) {
				putText(s, 1, r.text(maxText))
				putInt(s, 2, r.int())
			}))
		}
	})
}

func ciResults(r *reader) []byte {
	failures := func() []byte {
		return message(func(s *snapshot.State) {
			putMessage(s, 1, open(r))
			putText(s, 2, r.text(maxText))
		})
	}
	return message(func(s *snapshot.State) {
		for range r.count(maxItems) {
			putItem(s, 1, message(func(s *snapshot.State) {
				putItem(s, 1, r.raw(maxText))
				putText(s, 2, r.text(maxText))
				putUint(s, 3, r.uint())
				putText(s, 4, r.text(maxText))
				if r.has(resolutions) {
					putMessage(s, 5, failures())
				}
			}))
		}
		if !r.has(resolutions) {
			return
		}
		for range r.count(maxItems) {
			putItem(s, 2, message(func(s *snapshot.State) {
				putItem(s, 1, r.raw(maxText))
				putMessage(s, 2, failures())
			}))
		}
	})
}

func external(r *reader) []byte {
	return message(func(s *snapshot.State) {
		for range r.count(maxItems) {
			putItem(s, 1, message(func(s *snapshot.State) {
				putItem(s, 1, r.raw(maxText))
				putBool(s, 2, r.bool())
				putText(s, 3, r.text(maxText))
				putText(s, 4, r.text(maxText))
				if r.has(resolutions) {
					putText(s, 5, r.text(maxText))
				}
			}))
		}
	})
}

func limiter(r *reader) []byte {
	return message(func(s *snapshot.State) {
		for range r.count(maxItems) {
			key, held := r.text(maxText), r.uint()
			var times []int64
			for range r.count(maxItems) {
				times = append(times, r.int())
			}
			putItem(s, 1, message(func(s *snapshot.State) {
				putText(s, 1, key)
				s.PackedTimes(2, times, 0)
				putUint(s, 3, held)
			}))
		}
	})
}

func budget(r *reader) []byte {
	return message(func(s *snapshot.State) {
		putInt(s, 1, r.int())
		putUint(s, 2, positive(r))
		putUint(s, 3, positive(r))
		for range r.count(maxItems) {
			putItem(s, 4, message(func(s *snapshot.State) {
				putText(s, 1, r.text(maxText))
				putUint(s, 2, positive(r))
				putUint(s, 3, positive(r))
				putBool(s, 4, r.bool())
				putMessage(s, 5, suppressed(r))
			}))
		}
	})
}

// categories is how many categories of alerts version 8 knew.
const categories = 10

func suppressed(r *reader) []byte {
	return message(func(s *snapshot.State) {
		total := r.uint()
		putUint(s, 1, total)
		if total == 0 {
			return
		}
		putInt(s, 2, r.int())
		var hashes, counts []uint64
		for range r.count(maxItems) {
			hashes = append(hashes, r.uint())
		}
		for range categories {
			counts = append(counts, r.uint())
		}
		s.Hashes(3, hashes, 0)
		snapshot.Packed(s, 4, counts, 0, 0)
		putUint(s, 5, r.uint())
		var examples []string
		for range r.count(maxItems) {
			examples = append(examples, r.text(maxText))
		}
		snapshot.Strings(s, 6, &examples, 0, 0)
	})
}
