// Package oldsnapshot converts snapshots of earlier versions to the current format.
//
// Versions 4 to 8 were a sequence of numbers and strings in an order that only the rules
// knew. Convert reads them in that order and writes the numbered fields that the rules
// read now (package snapshot), so no rule knows of earlier formats. A value that an older
// version lacks is left out, and starts as in a new detector.
package oldsnapshot

import "github.com/tocsin-bus/tocsin/services/detector/snapshot"

// The versions that added values. Version 5 existed for a few commits only.
const (
	oldest = 4
	// resolutions added the open alerts.
	resolutions = 6
	// trust added the statistical rules. It is the version of fe59af0.
	trust = 7
	// lifecycle added the age of apps, frozen baselines, the quiet time that ends a
	// spike, and the storm limit of each app.
	lifecycle = 8
)

// Bounds on the values of a snapshot, each larger than in any version.
const (
	maxItems = 1 << 20
	maxText  = 1 << 17
)

// Readable reports whether Convert reads snapshots of a version.
func Readable(version uint32) bool {
	return version == oldest || version >= resolutions && version <= lifecycle
}

// Convert returns the state in a snapshot of an earlier version, without its header, in
// the current format. Its error wraps [snapshot.ErrDamaged].
func Convert(version uint32, data []byte) ([]byte, error) {
	r := &reader{rest: data, version: version}
	state := encode(r, foldState)
	return state, r.close()
}

// encode returns the fields that a function converts.
func encode(r *reader, fields func(converter)) []byte {
	return snapshot.Append(nil, func(s *snapshot.Codec) { fields(converter{r, s}) })
}
