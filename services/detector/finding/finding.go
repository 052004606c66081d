// Package finding is how a rule says what it found, and how it remembers which
// alerts told it, until it is over.
//
// A rule makes the alert and can't know whether it leaves: in a storm it is held
// back. Only what left is remembered as open, so that nothing is ever said to be
// over that nobody was told of. An end that was held back leaves open what it
// would have ended: by that the rule finds it again at its next look, which is at
// the next event that it is asked about. The package knows no rule and no clock.
package finding

import "github.com/tocsin-bus/tocsin/shared/alert"

// Finding is an alert that a rule raised and where it remembers it.
type Finding struct {
	Alert alert.Alert
	// Again says that the alert was held back at the last look already, so that
	// it counts once, however often it is tried.
	Again bool

	of           *Open
	renewed, end bool
	// note is where Told writes as, or nil.
	note *uint8
	as   uint8
}

// New is a finding that is open, beside those that are, until of is ended.
func New(a alert.Alert, of *Open) Finding { return Finding{Alert: a, of: of} }

// Renewed is a finding that is the one that is open, told again: who reads it
// knows it by its dedup key, so that it takes the place of the one before it, but
// not of what was joined under another key.
func Renewed(a alert.Alert, of *Open) Finding { return Finding{Alert: a, of: of, renewed: true} }

// End is an alert after which nothing is open: it resolves what is, if anything.
func End(a alert.Alert, of *Open) Finding {
	of.End(&a)
	return Finding{Alert: a, of: of, end: true}
}

// Noting is the finding, of which Told notes as what it was told: for a rule that
// tells one finding in several ways, and again what was held back.
func (f Finding) Noting(note *uint8, as uint8) Finding {
	f.note, f.as = note, as
	return f
}

// Ends reports whether the finding is the end of what was found before.
func (f Finding) Ends() bool { return f.end }

// Withheld notes that the finding is known, though no alert is raised for it: another rule has
// raised one about the same. It is not open, so nothing resolves it.
func (f Finding) Withheld() {
	if f.note != nil {
		*f.note = f.as
	}
}

// Told notes that the alert left under an id. The rule must not have forgotten
// what the finding is about since it was made.
func (f Finding) Told(id string) {
	switch {
	case f.end:
		*f.of = Open{}
	case f.renewed:
		f.of.renew()
	}
	if !f.end {
		f.of.Add(id, f.Alert.Severity)
	}
	if f.note != nil {
		*f.note = f.as
	}
}
