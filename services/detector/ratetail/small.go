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

// Add counts an error at now and says whether a spike begins with it, of kind
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
	found, _, spike := s.look(&before, n, 1)
	if spike {
		s.state, s.stayed, s.from = spiking, false, s.onset()
	}
	return found, spike
}

// Over lets time pass up to now and says whether no spike goes on, and how the
// last one ended: SpikeOver or SpikeStayed. moved says that something was counted
// anew.
func (s *Small) Over(now time.Time) (end Finding, over, moved bool) {
	moved = s.until(second(now))
	end, over = s.ended()
	return end, over, moved
}

func (s *Small) until(t int64) (moved bool) {
	if t < s.at {
		s.core = core{at: t, lastError: t, since: t}
		return true
	}
	moved = t > s.at
	for s.at < t && s.full() {
		s.tick()
		switch {
		case s.state == calm:
		case s.calmed():
			s.state = calm
		case s.at-s.from >= newLevel:
			// What is usual now is learned anew.
			s.core = core{at: s.at, lastError: s.lastError, since: s.at, slots: s.slots, stayed: true}
		}
	}
	if s.at < t {
		s.skip(t - s.at)
	}
	return moved
}
