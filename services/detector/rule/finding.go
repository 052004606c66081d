package rule

import "github.com/tocsin-bus/tocsin/shared/alert"

// Finding is an alert that a rule wants to raise, and where the rule records that it was
// published.
//
// A storm of alerts can suppress a finding. Only a published alert counts as open, so no
// resolution is about an alert that no reader has. After a suppressed resolution the alerts
// stay open, and the rule returns the resolution again with its next event.
type Finding struct {
	Alert alert.Alert
	// Make, if set, builds the alert. It is for rules that find something in most events of a
	// storm. Alert then has only the category and the severity, and Key is the dedup key,
	// valid until the next event.
	Make func() alert.Alert
	Key  []byte
	// Again reports whether the alert was suppressed before. Then it is counted already.
	Again bool
	// Opens, if set, is the incident that the alert opens. Its ID and Title are filled in
	// when the alert is published.
	Opens *Incident

	open *Open
	// replaces reports whether the alert replaces the open ones, and ends whether nothing
	// is open after it.
	replaces, ends bool
	// note is where MarkPublished writes noteValue, or nil.
	note      *uint8
	noteValue uint8
}

// NewFinding returns a finding whose alert is open once it is published, in addition to those that
// are open already.
func NewFinding(a alert.Alert, open *Open) Finding { return Finding{Alert: a, open: open} }

// RenewedFinding returns a finding that raises the open alert again. It has the dedup key of that
// alert and replaces it.
func RenewedFinding(a alert.Alert, open *Open) Finding {
	return Finding{Alert: a, open: open, replaces: true}
}

// EndFinding returns a finding after which no alert is open. Its alert resolves those that are.
func EndFinding(a alert.Alert, open *Open) Finding {
	open.End(&a)
	return Finding{Alert: a, open: open, ends: true}
}

// WithNote returns the finding with a value that [Finding.MarkPublished] writes to note.
// From it a rule knows which of its findings was published last.
func (f Finding) WithNote(note *uint8, value uint8) Finding {
	f.note, f.noteValue = note, value
	return f
}

// Ends reports whether the finding is the end of earlier ones.
func (f Finding) Ends() bool { return f.ends }

// SkipPublish writes the note of a finding that is not raised, because another rule has raised
// an alert about the same problem. Nothing is open after it.
func (f Finding) SkipPublish() { f.writeNote() }

func (f Finding) writeNote() {
	if f.note != nil {
		*f.note = f.noteValue
	}
}

// MarkPublished records in the rule that the alert was published with an id. It is called
// before the rule observes the next event.
func (f Finding) MarkPublished(id string) {
	if f.open != nil {
		switch {
		case f.ends:
			*f.open = Open{}
		case f.replaces:
			f.open.dropReplaced()
		}
		if !f.ends {
			f.open.Add(id, f.Alert.Severity)
		}
	}
	f.writeNote()
}
