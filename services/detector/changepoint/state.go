package changepoint

import "github.com/tocsin-bus/tocsin/services/detector/snapshot"

// Size is about what a Series takes, in bytes.
const Size = 8*(Reference+held) + 4*older + 56

// Of is a series of which only the values are known, the oldest first: of more than
// Reference the newest. Nothing is found in it.
func Of(values []int64) Series {
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

// Save writes the series.
func (s *Series) Save(w *snapshot.Writer) {
	for _, values := range [][]int64{s.reference[:s.nref], s.newest[:s.nnew]} {
		w.Len(len(values))
		for _, v := range values {
			w.Int(v)
		}
	}
	w.Len(int(s.nold))
	for _, v := range s.older[:s.nold] {
		w.Int(int64(v))
	}
	w.Len(int(s.kept))
	w.Float(float64(s.noise))
	w.Len(int(s.found))
	w.Bool(s.slow)
	w.Len(int(s.forget))
	if s.forget > 0 {
		w.Int(s.peak)
	}
	if s.found != None {
		w.Len(int(s.suspects))
		w.Len(int(s.since))
		w.Len(int(s.u))
		w.Int(s.level)
	}
}

// Restore reads what Save wrote. Errors are in r.
func Restore(r *snapshot.Reader) Series {
	var s Series
	s.nref = values(r, s.reference[:])
	s.nnew = values(r, s.newest[:])
	if r.Has(snapshot.Lifecycle) {
		s.restorePast(r)
	}
	s.found = Confidence(r.UpTo(int(Confirmed)))
	s.slow = r.Bool()
	if s.forget = uint16(r.UpTo(remembered)); s.forget > 0 {
		s.peak = value(r, Max)
	}
	if s.found != None {
		s.suspects = uint8(r.UpTo(int(s.nnew)))
		s.since = uint8(r.UpTo(longest))
		s.u = uint8(r.UpTo(Newest * Reference))
		s.level = value(r, 2*Max)
		if int(s.suspects) < s.found.Of() || s.slow {
			r.Fail("%d values are suspected of being %s", s.suspects, s.found)
		}
	}
	if r.Err() != nil {
		return Series{}
	}
	return s
}

// restorePast reads what is older than the reference, which older snapshots lack.
func (s *Series) restorePast(r *snapshot.Reader) {
	for i := range r.Len(older) {
		s.older[i] = float32(value(r, 2*Max))
		s.nold++
	}
	s.kept = uint8(r.UpTo(100))
	if noise := r.Float(); noise >= 0 && noise <= Max {
		s.noise = float32(noise)
	} else {
		r.Fail("a standard deviation of %g", noise)
	}
}

func values(r *snapshot.Reader, into []int64) (n uint8) {
	for i := range r.Len(len(into)) {
		into[i] = value(r, Max)
		n++
	}
	return n
}

func value(r *snapshot.Reader, most int64) int64 {
	v := r.Int()
	if v < 0 || v > most {
		r.Fail("a value of %d", v)
		return 0
	}
	return v
}
