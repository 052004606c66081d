package ingest

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/ingest/sentry"
)

func TestSentryMemory(t *testing.T) {
	key := func(n int) (k sentry.Key) {
		binary.LittleEndian.PutUint64(k[:], uint64(n))
		return k
	}
	const room = 100
	r := newSentryMemory(room * sentryEntryBytes)
	for n := range 1000 {
		if !r.Keep(key(n), "") || r.Keep(key(n), "other") {
			t.Fatalf("Keep of entry %d: want true at first, then false", n)
		}
		for _, back := range []int{0, 1, room - 1} {
			if _, known := r.Lookup(key(max(n-back, 0))); !known {
				t.Fatalf("of %d entries, the one %d before the last is forgotten, want it kept", n+1, back)
			}
		}
		if len(r.younger)+len(r.older) > 2*room {
			t.Fatalf("%d entries, want at most %d", len(r.younger)+len(r.older), 2*room)
		}
	}
	if _, known := r.Lookup(key(1)); known {
		t.Error("the first entry is still there, want it forgotten")
	}
	for n := range 10 {
		r.Keep(key(2000+n), strings.Repeat("x", room*sentryEntryBytes/2))
	}
	if text, known := r.Lookup(key(2009)); !known || len(r.younger)+len(r.older) > 2 || len(text) != room*sentryEntryBytes/2 {
		t.Errorf("%d entries of half the room each, the last has %d bytes; want at most 2, and %d", len(r.younger)+len(r.older), len(text), room*sentryEntryBytes/2)
	}
}
