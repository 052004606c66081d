package ciresult

import (
	"github.com/tocsin-bus/tocsin/services/detector/finding"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// maxID is the longest alert id and status in a snapshot, in bytes.
const maxID = 64

// Save writes the latest statuses and what fails.
func (r *Results) Save(w *snapshot.Writer) {
	w.Len(r.latest.Len())
	for k, e := range r.latest.All() {
		w.Raw(k[:])
		w.String(e.status)
		w.Len(e.ordinal)
		w.String(e.first)
		e.ends.save(w)
	}
	w.Len(r.failing.Len())
	for k, f := range r.failing.All() {
		w.Raw(k[:])
		f.save(w)
	}
}

// Restore reads what Save wrote. Errors are in the reader.
func Restore(from *snapshot.Reader) *Results {
	r := New()
	for range from.Len(MaxResults) {
		k, e := restoreKey(from), episode{status: from.String(maxID), ordinal: from.UpTo(1 << 40), first: from.String(maxID)}
		if from.Has(snapshot.Resolutions) {
			e.ends = restoreUnmended(from)
		}
		r.add(k, e)
	}
	if !from.Has(snapshot.Resolutions) {
		return r
	}
	for range from.Len(MaxFailing) {
		r.addFailing(restoreKey(from), restoreUnmended(from))
	}
	return r
}

func restoreKey(from *snapshot.Reader) (k key) {
	if raw := from.Raw(len(k)); copy(k[:], raw) != len(k) {
		from.Fail("a key of %d bytes", len(raw))
	}
	return k
}

func (f unmended) save(w *snapshot.Writer) {
	f.open.Save(w)
	w.String(f.key)
}

func restoreUnmended(from *snapshot.Reader) unmended {
	return unmended{open: finding.Restore(from), key: from.String(finding.MaxKey)}
}
