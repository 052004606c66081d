package detector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// newStore returns a connection to a new bus and its bucket of snapshots.
func newStore(t *testing.T) (*bus.Session, jetstream.ObjectStore) {
	t.Helper()
	c := bustest.Start(t).Connect(bus.RoleDetector)
	objects, err := c.JS.ObjectStore(t.Context(), bus.BucketDetector)
	if err != nil {
		t.Fatal(err)
	}
	return c, objects
}

var created = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

// load returns what a start finds: the position and the state.
func load(t *testing.T, s snapshotStore) (uint64, string, error) {
	t.Helper()
	var state string
	position, err := s.load(t.Context(), func(data []byte) error {
		if bytes.HasPrefix(data, []byte("bad")) {
			return errors.New("of another version")
		}
		state = string(data)
		return nil
	})
	return position.Telemetry, state, err
}

func save(t *testing.T, s snapshotStore, seq uint64, state string) {
	t.Helper()
	if err := s.save(t.Context(), snapshotPosition{Telemetry: seq, Created: created}, []byte(state)); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, s snapshotStore, wantSeq uint64, want string) {
	t.Helper()
	if seq, got, err := load(t, s); seq != wantSeq || got != want || err != nil {
		t.Errorf("load = %q at %d, error %v; want %q at %d, no error", got, seq, err, want, wantSeq)
	}
}

// TestSnapshots checks that load returns the newest snapshot, or the one before it if the
// newest cannot be used.
func TestSnapshots(t *testing.T) {
	c, objects := newStore(t)
	s := newSnapshotStore(c, 0, 1)
	expect(t, s, 0, "")
	for i := range uint64(5) {
		save(t, s, 10+i, fmt.Sprint("state ", i))
		expect(t, newSnapshotStore(c, 0, 1), 10+i, fmt.Sprint("state ", i))
	}
	expect(t, newSnapshotStore(c, 3, 8), 0, "") // another partition

	late := newSnapshotStore(c, 0, 1) // an owner that lost its lease and read neither object
	save(t, late, 7, "late")
	expect(t, newSnapshotStore(c, 0, 1), 13, "state 3") // the one that was not replaced

	s = newSnapshotStore(c, 0, 1)
	expect(t, s, 13, "state 3")
	save(t, s, 20, "whole")
	save(t, s, 21, "half")
	for _, name := range s.names { // remove the content of the newest, as a failed Put does
		info, err := objects.GetInfo(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Metadata[metaPosition] == "" {
			t.Errorf("object %s has no position in its metadata, want one", name)
		}
		if info.Size == uint64(len(`{"telemetry":21,"created":"2026-01-28T14:30:00Z","alerts":0,"alerts_created":"0001-01-01T00:00:00Z"}`+"\nhalf")) {
			stream, err := c.JS.Stream(t.Context(), snapshotStream)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(chunkPrefix+info.NUID)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s = newSnapshotStore(c, 0, 1)
	expect(t, s, 20, "whole")
	save(t, s, 22, "after")
	expect(t, newSnapshotStore(c, 0, 1), 22, "after")
	save(t, s, 23, "bad")
	expect(t, newSnapshotStore(c, 0, 1), 22, "after")
	save(t, s, 24, "bad")
	save(t, s, 25, "bad")
	if seq, _, err := load(t, newSnapshotStore(c, 0, 1)); !errors.Is(err, errUnusable) || seq != 0 {
		t.Errorf("load of two unusable snapshots = position %d, error %v; want 0, %v", seq, err, errUnusable)
	}
}

// TestSnapshotOfAnOlderVersion checks that a snapshot without a position in its metadata
// is read.
func TestSnapshotOfAnOlderVersion(t *testing.T) {
	c, objects := newStore(t)
	if _, err := objects.PutBytes(t.Context(), "fold", []byte(`{"telemetry":4,"created":"2026-01-28T14:30:00Z"}`+"\nold")); err != nil {
		t.Fatal(err)
	}
	s := newSnapshotStore(c, 0, 1)
	expect(t, s, 4, "old")
	save(t, s, 9, "new")
	expect(t, newSnapshotStore(c, 0, 1), 9, "new")
	// The older version ran again, so its snapshot is the newest.
	if _, err := objects.PutBytes(t.Context(), "fold", []byte(`{"telemetry":12,"created":"2026-01-28T14:30:00Z"}`+"\nold again")); err != nil {
		t.Fatal(err)
	}
	expect(t, newSnapshotStore(c, 0, 1), 12, "old again")
}

// TestTwoSaveAtOnce checks that a read is complete while two owners save at the same time,
// and that sweep removes the content that they leave behind.
func TestTwoSaveAtOnce(t *testing.T) {
	c, _ := newStore(t)
	owners := []snapshotStore{newSnapshotStore(c, 0, 1), newSnapshotStore(c, 0, 1)}
	large := bytes.Repeat([]byte("0123456789abcdef"), 40_000) // several chunks
	for round := range 10 {
		var saving sync.WaitGroup
		for i, o := range owners {
			saving.Go(func() {
				position := snapshotPosition{Telemetry: uint64(10*round + i + 1), Created: created}
				if err := o.save(t.Context(), position, large); err != nil {
					t.Errorf("save: %v", err)
				}
			})
		}
		saving.Wait()
		var read []byte
		if _, err := newSnapshotStore(c, 0, 1).load(t.Context(), func(data []byte) error { read = data; return nil }); err != nil || !bytes.Equal(read, large) {
			t.Fatalf("round %d: load = %d bytes, error %v; want %d bytes as saved", round, len(read), err, len(large))
		}
	}
	s := owners[0]
	left, err := s.sweep(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d contents without an object", len(left))
	if left, err = s.sweep(t.Context(), left); err != nil || len(left) > 0 {
		t.Fatalf("second sweep = %d contents without an object, error %v; want 0", len(left), err)
	}
	counts, err := s.countChunks(t.Context(), "")
	if err != nil || len(counts) != 2 {
		t.Errorf("%d contents after the sweep, error %v; want 2", len(counts), err)
	}
	if _, err := newSnapshotStore(c, 0, 1).load(t.Context(), func([]byte) error { return nil }); err != nil {
		t.Errorf("load after the sweep: %v", err)
	}
}

// TestSaveIsCancelled checks that a cancelled save keeps the snapshot before.
func TestSaveIsCancelled(t *testing.T) {
	c, _ := newStore(t)
	s := newSnapshotStore(c, 0, 1)
	save(t, s, 5, "before")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.save(ctx, snapshotPosition{Telemetry: 6, Created: created}, []byte("never")); err == nil {
		t.Error("save with a cancelled context succeeded, want an error")
	}
	expect(t, newSnapshotStore(c, 0, 1), 5, "before")
}
