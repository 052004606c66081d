package changepoint

import "github.com/tocsin-bus/tocsin/services/detector/snapshot"

// Size is about what a Series takes, in bytes.
const Size = 8*(Reference+held) + 4*older + 56

// FromValues returns a series of which only the values are known, the oldest first: of more than
// Reference the newest. Nothing is found in it.
func FromValues(values []int64) Series {
	var s Series
	for _, v := range values[max(len(values)-Reference, 0):] {
		s.push(min(max(v, 0), Max))
	}
	return s
}

// Values are the newest values, the oldest first: at most Reference, those under
// suspicion included.
func (s *Series) Values() []int64 {
	all := append(append([]int64{}, s.reference[:s.nref]...), s.newest[:s.nnew]...)
	return all[max(len(all)-Reference, 0):]
}

// State has the series.
func (s *Series) State(st *snapshot.State) {
	reference, newest, past := s.reference[:s.nref], s.newest[:s.nnew], make([]uint64, 0, older)
	for _, v := range s.older[:s.nold] {
		past = append(past, uint64(v))
	}
	noise := float64(s.noise)
	reference = snapshot.Packed(st, 1, reference, len(s.reference), Max)
	newest = snapshot.Packed(st, 2, newest, len(s.newest), Max)
	past = snapshot.Packed(st, 3, past, older, 2*Max)
	snapshot.Uint(st, 4, &s.kept, 100)
	st.Float(5, &noise, 0, Max)
	snapshot.Uint(st, 6, &s.found, uint64(Confirmed))
	st.Bool(7, &s.slow)
	snapshot.Uint(st, 8, &s.forget, remembered)
	snapshot.Uint(st, 9, &s.peak, Max)
	snapshot.Uint(st, 10, &s.suspects, held)
	snapshot.Uint(st, 11, &s.since, longest)
	snapshot.Uint(st, 12, &s.u, Newest*Reference)
	snapshot.Uint(st, 13, &s.level, 2*Max)
	if !st.Reading() {
		return
	}
	s.nref, s.nnew, s.nold, s.noise = uint8(len(reference)), uint8(len(newest)), uint8(len(past)), float32(noise)
	for i, v := range past {
		s.older[i] = float32(v)
	}
	s.check(st)
}

// check refuses what contradicts itself.
func (s *Series) check(st *snapshot.State) {
	switch {
	case s.found == None && (s.suspects > 0 || s.since > 0 || s.u > 0 || s.level > 0), s.forget == 0 && s.peak > 0:
		st.Fail("values are suspected though nothing is found")
	case s.suspects > s.nnew, s.found != None && (int(s.suspects) < s.found.SampleSize() || s.slow):
		st.Fail("%d of %d values are suspected of being %s", s.suspects, s.nnew, s.found)
	}
}
