package rule

import "github.com/tocsin-bus/tocsin/shared/alert"

// Finding is an alert that a rule wants to raise, and where the rule remembers it.
//
// In a storm of alerts it is suppressed. Only what was published is remembered as open, so
// no alert ends one that no reader knows. An end that was suppressed leaves open what it
// would have ended; the rule finds it again with its next event.
type Finding struct {
	Alert alert.Alert
	// Make builds the alert, where it is set: for rules with a finding for most events of
	// a storm. Alert then has the category and the severity alone, and Key is the dedup
	// key, good until the next event.
	Make func() alert.Alert
	Key  []byte
	// Again reports whether the alert was suppressed before, so that it counts once,
	// however often it is tried.
	Again bool
	// Opens, where it is set, is the incident that the alert opens. Its ID and Title are
	// filled in when the alert is published.
	Opens *Incident

	open         *Open
	renewed, end bool
	// note is where MarkPublished writes as, or nil.
	note *uint8
	as   uint8
}

// New returns a finding that is open, beside those that are, until open is ended.
func New(a alert.Alert, open *Open) Finding { return Finding{Alert: a, open: open} }

// Renewed returns a finding that is the one that is open, raised again. Readers know it
// by its dedup key, so it replaces the alert before it, but not one with another key.
func Renewed(a alert.Alert, open *Open) Finding {
	return Finding{Alert: a, open: open, renewed: true}
}

// End returns an alert after which nothing is open. It resolves what is, if anything.
func End(a alert.Alert, open *Open) Finding {
	open.End(&a)
	return Finding{Alert: a, open: open, end: true}
}

// Noting returns the finding with a value that [Finding.MarkPublished] writes to note: for
// a rule that raises one finding in several ways, and again when it was suppressed.
func (f Finding) Noting(note *uint8, as uint8) Finding {
	f.note, f.as = note, as
	return f
}

// Ends reports whether the finding is the end of what was found before.
func (f Finding) Ends() bool { return f.end }

// Withhold notes the finding without an alert: another rule has raised one about the
// same. It is not open, so nothing resolves it.
func (f Finding) Withhold() {
	if f.note != nil {
		*f.note = f.as
	}
}

// MarkPublished remembers in the rule that the alert was published under an id. The rule
// must still remember what the finding is about.
func (f Finding) MarkPublished(id string) {
	if f.open != nil {
		switch {
		case f.end:
			*f.open = Open{}
		case f.renewed:
			f.open.renew()
		}
		if !f.end {
			f.open.Add(id, f.Alert.Severity)
		}
	}
	if f.note != nil {
		*f.note = f.as
	}
}
