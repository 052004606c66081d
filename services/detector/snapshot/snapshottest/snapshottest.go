// Package snapshottest helps tests of types whose state package snapshot writes.
package snapshottest

import (
	"bytes"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// Stater is a type whose state can be written and read.
type Stater interface{ State(*snapshot.Codec) }

// Fataler is a testing.TB or a rapid.T.
type Fataler interface{ Fatal(...any) }

// Write returns the state of a value.
func Write(v Stater) []byte { return snapshot.Append(nil, v.State) }

// Read reads a state into a new value.
func Read(t Fataler, data []byte, into Stater) {
	if err := snapshot.Read(data, into.State); err != nil {
		t.Fatal("read the state:", err)
	}
}

// Copy writes the state of a value and reads it into a new one, which must then write
// the same.
func Copy(t Fataler, from, to Stater) {
	data := Write(from)
	Read(t, data, to)
	if again := Write(to); !bytes.Equal(again, data) {
		t.Fatal("a restored value writes another state:", again, "instead of", data)
	}
}
