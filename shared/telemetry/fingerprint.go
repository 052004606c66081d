package telemetry

// Bounds of a fingerprint. One beyond them counts as none: cut, two could become
// one, and what each of them stands for would hide the other.
const (
	// MaxFingerprintParts is how many texts one may have.
	MaxFingerprintParts = 16
	// MaxFingerprint is how long they may be together, in bytes.
	MaxFingerprint = 1 << 10
)

// Fingerprint is what its sender says that an error is told apart by, whatever its
// words and its stack are: errors with equal texts in equal order are one. It is
// nil where the sender says nothing of it.
//
// It stays a list, and isn't joined: ["a b"] and ["a","b"] are two.
type Fingerprint []string

// NewFingerprint is a fingerprint of texts, or nil when they say nothing or are
// beyond the bounds.
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

// fingerprint reads a string or an array of strings. Anything else is none, as an
// unknown field is: a program that has a field of that name for something else
// must not lose its log lines.
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
	other := false
	for r.dec.PeekKind() != ']' {
		var err error
		var part string
		if r.dec.PeekKind() == '"' && len(parts) <= MaxFingerprintParts {
			part, err = r.text("", "")
			parts = append(parts, part)
		} else { // beyond the bound, or no text
			other, err = true, r.dec.SkipValue()
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := r.dec.ReadToken(); err != nil || other {
		return nil, err
	}
	return NewFingerprint(parts...), nil
}
