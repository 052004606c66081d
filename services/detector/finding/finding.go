// Package finding is how a rule says what it found, and how it remembers which
// alert told it, until it is over.
//
// A rule makes the alert and can't know whether it leaves: in a storm it is held
// back. Only what left is remembered as open, so that nothing is ever said to be
// over that nobody was told of; and the end of a finding that was held back is
// found again at the rule's next look. The package knows no rule and no clock.
package finding

import (
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// maxID is the longest alert id in a snapshot, in bytes.
const maxID = 64

// Size is about what an Open takes, in bytes.
const Size = 64

// Open is the alert of a finding that is not over. The zero value is none.
type Open struct {
	id       string
	severity alert.Severity
}

// ID is that of the alert, empty when nothing is open.
func (o *Open) ID() string { return o.id }

// Worse says whether what is open is more severe than that.
func (o *Open) Worse(than alert.Severity) bool {
	return o.id != "" && o.severity.Rank() > than.Rank()
}

// Finding is an alert that a rule raised and where it remembers it.
type Finding struct {
	Alert alert.Alert
	of    *Open
}

// New is a finding that is open until of is resolved, or its end: an alert that
// resolves something. Without of it is remembered nowhere.
func New(a alert.Alert, of *Open) Finding { return Finding{Alert: a, of: of} }

// Told notes that the alert left under an id. The rule must not have forgotten
// what the finding is about since it was made.
func (f Finding) Told(id string) {
	switch {
	case f.of == nil:
	case f.Alert.Resolves != "":
		*f.of = Open{}
	default:
		*f.of = Open{id: id, severity: f.Alert.Severity}
	}
}

// Save writes which alert is open.
func (o *Open) Save(w *snapshot.Writer) {
	w.String(o.id)
	if o.id != "" {
		w.Len(o.severity.Rank())
	}
}

// Restore reads what Save wrote. Errors are in r.
func Restore(r *snapshot.Reader) Open {
	o := Open{id: r.String(maxID)}
	if o.id == "" {
		return o
	}
	rank, all := r.UpTo(len(alert.Severities())), alert.Severities()
	if rank < 1 {
		r.Fail("an open alert without a severity")
		return Open{}
	}
	o.severity = all[rank-1]
	return o
}
