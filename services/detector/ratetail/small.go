package ratetail

import "time"

// Small is a Counter that finds spikes alone, in less than 100 bytes: for when
// there are many things to count, such as the occurrences of each error. It
// decides as a Counter does of a stream whose errors come one by one: it learns
// neither how they cluster nor what recurs, and nothing drifts. Its zero value is
// not ready.
type Small struct{ core }

// SmallSize is how many bytes a Small takes.
const SmallSize = 96

// NewSmall returns a Small that has seen no error up to now, of a thing that was
// not watched before. It is to be made when the thing is first seen, and then
// counts that as well (Add).
func NewSmall(now time.Time) Small { return Small{begun(now)} }

// Add counts an error at now and reports whether a spike begins with it, of kind
// Spike. There is one finding per spike.
func (s *Small) Add(now time.Time) (Finding, bool) {
	s.until(second(now))
	n := s.add()
	if s.state != calm {
		return Finding{}, false
	}
	before := s.earlier()
	if before[last]+n < minSpike {
		return Finding{}, false
	}
	found, spike := s.test(&before, n)
	if spike {
		s.state, s.stayed, s.from = spiking, false, s.onset()
	}
	return found, spike
}

// test is that of a Counter whose errors come one by one. It has no use for a limit,
// so that one tail tells, and the threshold need not be looked for.
func (s *Small) test(before *[len(windows)]int64, n int64) (Finding, bool) {
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

// Over lets time pass up to now and reports whether no spike continues, and how the
// last one ended: SpikeOver or SpikeStayed. moved reports whether something was counted
// again.
func (s *Small) Over(now time.Time) (end Finding, over, moved bool) {
	moved = s.until(second(now))
	end = Finding{Kind: SpikeOver, Count: s.count(), Expected: s.expected(), Seconds: slots}
	if s.stayed {
		end.Kind = SpikeStayed
	}
	return end, s.state != spiking, moved
}

// Now lets time pass up to now and says how many errors came in the last 10 s and how
// unlikely that is, by what was usual before the spike that continues, if one does.
func (s *Small) Now(now time.Time) Finding {
	s.until(second(now))
	p := s.usual.expect(slots, 1)
	found := Finding{Kind: Spike, Count: s.count(), Seconds: slots, Expected: p.mean}
	if found.Count > 0 {
		found.LogP = p.logTail(float64(found.Count))
	}
	return found
}

func (s *Small) until(t int64) (moved bool) {
	if t < s.at {
		s.core = core{at: t, lastError: t, since: t}
		return true
	}
	moved = t > s.at
	for s.at < t && s.full() {
		if n, class := s.tick(); class == usualSlot {
			s.usual.pass(float64(n), short)
		}
		switch {
		case s.state == calm:
		case s.calmed():
			s.state = calm
		case s.at-s.from >= newLevel:
			// What is usual now is learned again, from what is in the window. The
			// second that continues is empty still, and the prior stands for another.
			now := level{count: float64(s.count()), exposure: slots - 1 - priorExposure}
			s.core = core{usual: now, at: s.at, lastError: s.lastError, since: s.at, slots: s.slots, stayed: true}
		}
	}
	if s.at < t {
		_, felt := s.skip(t - s.at)
		s.usual.skip(felt, short)
	}
	return moved
}
