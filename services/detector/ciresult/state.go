package ciresult

import (
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// maxID is the longest alert id and status in a snapshot, in bytes.
const maxID = 64

// State reads or writes the latest statuses and the failures.
func (r *Results) State(s *snapshot.Codec) {
	snapshot.Entries(s, 1, r.latest, func(s *snapshot.Codec, k *key, e *episode) {
		s.Fixed(1, k[:])
		s.String(2, &e.status, maxID)
		snapshot.Uint(s, 3, &e.ordinal, 1<<40)
		s.String(4, &e.first, maxID)
		snapshot.Message(s, 5, &e.resolved, (*failures).state)
	}, r.add)
	snapshot.Entries(s, 2, r.failing, func(s *snapshot.Codec, k *key, f *failures) {
		s.Fixed(1, k[:])
		snapshot.Message(s, 2, f, (*failures).state)
	}, r.addFailing)
}

func (f *failures) state(s *snapshot.Codec) {
	snapshot.Message(s, 1, &f.open, (*rule.Open).State)
	s.String(2, &f.newestKey, rule.MaxKey)
}
