package changepoint

import "github.com/tocsin-bus/tocsin/services/detector/snapshot"

// Size is about how many bytes a Series takes.
const Size = 8*(MaxReference+maxNewest) + 4*maxOlder + 56

// FromValues returns a series without a finding, from its values, the oldest first. It uses
// at most the newest [MaxReference].
func FromValues(values []int64) Series {
	var s Series
	for _, v := range values[max(len(values)-MaxReference, 0):] {
		s.push(min(max(v, 0), Max))
	}
	return s
}

// Values returns the newest values, the oldest first: at most [MaxReference], including
// those of a finding.
func (s *Series) Values() []int64 {
	all := append(append([]int64{}, s.reference[:s.nref]...), s.newest[:s.nnew]...)
	return all[max(len(all)-MaxReference, 0):]
}

// State writes or reads the series.
func (s *Series) State(st *snapshot.Codec) {
	reference, newest, past := s.reference[:s.nref], s.newest[:s.nnew], make([]uint64, 0, maxOlder)
	for _, v := range s.older[:s.nold] {
		past = append(past, uint64(v))
	}
	noise := float64(s.noise)
	reference = snapshot.Packed(st, 1, reference, len(s.reference), Max)
	newest = snapshot.Packed(st, 2, newest, len(s.newest), Max)
	past = snapshot.Packed(st, 3, past, maxOlder, 2*Max)
	snapshot.Uint(st, 4, &s.correlation, 100)
	st.Float(5, &noise, 0, Max)
	snapshot.Uint(st, 6, &s.found, uint64(Confirmed))
	st.Bool(7, &s.pending)
	snapshot.Uint(st, 8, &s.peakLeft, peakLifetime)
	snapshot.Uint(st, 9, &s.peak, Max)
	snapshot.Uint(st, 10, &s.suspects, maxNewest)
	snapshot.Uint(st, 11, &s.since, maxSince)
	snapshot.Uint(st, 12, &s.u, MaxSample*MaxReference)
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

// check refuses a state that contradicts itself.
func (s *Series) check(st *snapshot.Codec) {
	switch {
	case s.found == None && (s.suspects > 0 || s.since > 0 || s.u > 0 || s.level > 0), s.peakLeft == 0 && s.peak > 0:
		st.Fail("values are suspected though nothing is found")
	case s.suspects > s.nnew, s.found != None && (int(s.suspects) < s.found.SampleSize() || s.pending):
		st.Fail("%d of %d values are suspected of being %s", s.suspects, s.nnew, s.found)
	}
}
