package telemetry

// Bounds of a fingerprint. A larger one counts as none: two could be equal when truncated, and one
// error would hide the other.
const (
	// MaxFingerprintParts is the maximum number of texts.
	MaxFingerprintParts = 16
	// MaxFingerprint is their maximum length together, in bytes.
	MaxFingerprint = 1 << 10
)

// Fingerprint is the sender's key for grouping errors, in place of message and stack: errors with
// equal texts in equal order are one. It is nil where the sender sets none.
//
// It is a list, and not joined: ["a b"] and ["a","b"] differ.
type Fingerprint []string

// NewFingerprint returns a fingerprint of texts, or nil when all are empty or the bounds are
// exceeded.
func NewFingerprint(parts ...string) Fingerprint {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	if size == 0 || size > MaxFingerprint || len(parts) > MaxFingerprintParts {
		return nil
	}
	return parts
}

// fingerprint reads a string or an array of strings. Anything else is ignored, as an unknown field
// is: a program that uses a field of that name otherwise must not lose its log lines.
func (r *reader) fingerprint() (Fingerprint, error) {
	switch r.dec.PeekKind() {
	case '"':
		part, err := r.text("", "")
		return NewFingerprint(part), err
	case '[':
		return r.fingerprintParts()
	default:
		return nil, r.dec.SkipValue()
	}
}

func (r *reader) fingerprintParts() (Fingerprint, error) {
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, err
	}
	var parts []string
	hasOther := false
	for r.dec.PeekKind() != ']' {
		var err error
		var part string
		if r.dec.PeekKind() == '"' && len(parts) <= MaxFingerprintParts {
			part, err = r.text("", "")
			parts = append(parts, part)
		} else { // beyond the bound, or no text
			hasOther, err = true, r.dec.SkipValue()
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := r.dec.ReadToken(); err != nil || hasOther {
		return nil, err
	}
	return NewFingerprint(parts...), nil
}
