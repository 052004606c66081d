// Package oldsnapshot converts snapshots of earlier versions to the current format.
//
// Versions 4 to 8 were a flat run of numbers and strings whose order was known to the
// rules. Convert reads that run and writes the numbered fields that the rules read now
// (package snapshot), so that no rule knows of earlier formats. What an older version
// lacks is left out, and begins as in a new detector.
package oldsnapshot

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// The versions that added something. Version 5 stood for a few commits only.
const (
	oldest = 4
	// resolutions added which alerts are open.
	resolutions = 6
	// trust added the statistical rules. It is the version of fe59af0.
	trust = 7
	// lifecycle added the age of apps, frozen baselines, the quiet time that ends a
	// spike, and the storm bound of each app.
	lifecycle = 8
)

// Readable reports whether Convert reads snapshots of a version.
func Readable(version uint32) bool {
	return version == oldest || version >= resolutions && version <= lifecycle
}

// Convert returns the state in a snapshot of an earlier version, without its header, in
// the current format. Its error wraps [snapshot.ErrDamaged].
func Convert(version uint32, data []byte) ([]byte, error) {
	r := &reader{rest: data, version: version}
	state := snapshot.Append(nil, func(s *snapshot.State) { convert(r, s) })
	return state, r.close()
}

// The writers of single fields.

func putUint(s *snapshot.State, number protowire.Number, v uint64) {
	snapshot.Uint(s, number, &v, math.MaxUint64)
}

func putInt(s *snapshot.State, number protowire.Number, v int64) {
	snapshot.Int(s, number, &v, snapshot.AnyInt)
}

func putHash(s *snapshot.State, number protowire.Number, v uint64) { s.Hash(number, &v) }

func putBool(s *snapshot.State, number protowire.Number, v bool) { s.Bool(number, &v) }

func putFloat(s *snapshot.State, number protowire.Number, v float64) { s.Float(number, &v, 0, 0) }

func putText(s *snapshot.State, number protowire.Number, v string) { s.String(number, &v, 0) }

// putItem writes a message, also where it is empty.
func putItem(s *snapshot.State, number protowire.Number, message []byte) { s.Raw(number, &message) }

// putMessage writes a message, unless it is empty.
func putMessage(s *snapshot.State, number protowire.Number, message []byte) {
	if len(message) > 0 {
		s.Raw(number, &message)
	}
}

// message writes fields into a message of their own.
func message(fields func(*snapshot.State)) []byte { return snapshot.Append(nil, fields) }

// putTime writes a time in milliseconds. Zero milliseconds are a time, too.
func putTime(s *snapshot.State, number protowire.Number, ms int64) {
	if at := milliseconds(ms); !at.IsZero() {
		s.Time(number, &at)
	}
}
