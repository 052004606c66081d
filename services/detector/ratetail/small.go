package ratetail

import "time"

// Small is a Counter that finds spikes only and takes less than 100 bytes, for counting
// many things, such as each error of an app. It decides as a Counter does whose errors come
// one by one: it learns neither clusters nor schedules, and finds no drift. Its zero value
// is not ready: use [NewSmall].
type Small struct{ core }

// SmallSize is how many bytes a Small takes.
const SmallSize = 96

// NewSmall returns a Small for something that was not observed before now. The first
// occurrence is counted with Add, as all others.
func NewSmall(now time.Time) Small { return Small{newCore(now)} }

// Add counts an error at now and reports whether a Spike begins with it. There is one
// finding per spike.
func (s *Small) Add(now time.Time) (Finding, bool) {
	s.advanceTo(second(now))
	n := s.add()
	if s.state != calm {
		return Finding{}, false
	}
	before := s.countsBefore()
	if before[last]+n < minSpike {
		return Finding{}, false
	}
	found, spike := s.findSpike(&before, n)
	if spike {
		s.state, s.stayed, s.from = spiking, false, s.onset()
	}
	return found, spike
}

// findSpike reports whether the count of any window is a spike. Unlike that of Counter it
// computes no limit.
func (s *Small) findSpike(before *[len(windows)]int64, n int64) (Finding, bool) {
	for i, w := range windows {
		count, p := before[i]+n, s.usual.expect(float64(w.length), 1)
		if count <= p.floor() {
			continue
		}
		if logP := p.logTail(float64(count)); logP < w.logP {
			return Finding{Kind: Spike, Count: count, Expected: p.mean, LogP: logP, Seconds: w.length}, true
		}
	}
	return Finding{}, false
}

// Over lets time pass up to now and reports whether no spike is open, and how the last one
// ended: SpikeOver or SpikeStayed. moved reports whether the state has changed.
func (s *Small) Over(now time.Time) (end Finding, over, moved bool) {
	moved = s.advanceTo(second(now))
	end = Finding{Kind: SpikeOver, Count: s.count(), Expected: s.expected(), Seconds: slots}
	if s.stayed {
		end.Kind = SpikeStayed
	}
	return end, s.state != spiking, moved
}

// Current lets time pass up to now and returns how many errors came in the last 10 s and how
// unlikely that is, by the usual rate before the current spike, if there is one.
func (s *Small) Current(now time.Time) Finding {
	s.advanceTo(second(now))
	p := s.usual.expect(slots, 1)
	found := Finding{Kind: Spike, Count: s.count(), Seconds: slots, Expected: p.mean}
	if found.Count > 0 {
		found.LogP = p.logTail(float64(found.Count))
	}
	return found
}

func (s *Small) advanceTo(t int64) (moved bool) {
	if t < s.at {
		s.core = core{at: t, lastError: t, since: t}
		return true
	}
	moved = t > s.at
	for s.at < t && s.windowHasErrors() {
		if n, class := s.tick(); class == usualSlot {
			s.usual.pass(float64(n), shortMemory)
		}
		switch {
		case s.state == calm:
		case s.episodeOver():
			s.state = calm
		case s.at-s.from >= newLevel:
			// The usual rate is learned again, from the window. Its current second is still
			// empty, and the prior stands for another one.
			now := level{count: float64(s.count()), exposure: slots - 1 - priorExposure}
			s.core = core{usual: now, at: s.at, lastError: s.lastError, since: s.at, slots: s.slots, stayed: true}
		}
	}
	if s.at < t {
		_, effective := s.skip(t - s.at)
		s.usual.skip(effective, shortMemory)
	}
	return moved
}
