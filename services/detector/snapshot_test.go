package detector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// store is a bus with room for snapshots.
func store(t *testing.T) (*bus.Conn, jetstream.ObjectStore) {
	t.Helper()
	dir, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, Addr: "127.0.0.1:0", Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c, err := bus.Connect(t.Context(), bus.ConnConfig{Name: t.Name(), Role: bus.RoleDetector, Server: s, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	objects, err := c.JS.ObjectStore(t.Context(), bus.BucketDetector)
	if err != nil {
		t.Fatal(err)
	}
	return c, objects
}

var made = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

// load is what a start finds: the position and the state.
func load(t *testing.T, s snapshots) (uint64, string, error) {
	t.Helper()
	var state string
	at, err := s.load(t.Context(), func(data []byte) error {
		if bytes.HasPrefix(data, []byte("bad")) {
			return errors.New("of another version")
		}
		state = string(data)
		return nil
	})
	return at.Telemetry, state, err
}

func save(t *testing.T, s snapshots, at uint64, state string) {
	t.Helper()
	if err := s.save(t.Context(), position{Telemetry: at, Created: made}, []byte(state)); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, s snapshots, at uint64, state string) {
	t.Helper()
	if gotAt, got, err := load(t, s); gotAt != at || got != state || err != nil {
		t.Errorf("%q at %d, %v; want %q at %d", got, gotAt, err, state, at)
	}
}

// TestSnapshots: the newest counts; where it can't be used the one before does.
func TestSnapshots(t *testing.T) {
	c, objects := store(t)
	s := newSnapshots(c, 0, 1)
	expect(t, s, 0, "")
	for i := range uint64(5) {
		save(t, s, 10+i, fmt.Sprint("state ", i))
		expect(t, newSnapshots(c, 0, 1), 10+i, fmt.Sprint("state ", i))
	}
	expect(t, newSnapshots(c, 3, 8), 0, "") // another partition

	late := newSnapshots(c, 0, 1) // an ousted owner, which knew of neither
	save(t, late, 7, "late")
	expect(t, newSnapshots(c, 0, 1), 13, "state 3") // the one that was not replaced

	s = newSnapshots(c, 0, 1)
	expect(t, s, 13, "state 3")
	save(t, s, 20, "whole")
	save(t, s, 21, "half")
	for _, name := range s.names { // the newest loses its content, as a failed Put leaves it
		info, err := objects.GetInfo(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Metadata[metaPosition] == "" {
			t.Errorf("%s says nothing of its position", name)
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
	s = newSnapshots(c, 0, 1)
	expect(t, s, 20, "whole")
	save(t, s, 22, "after")
	expect(t, newSnapshots(c, 0, 1), 22, "after")
	save(t, s, 23, "bad")
	expect(t, newSnapshots(c, 0, 1), 22, "after")
	save(t, s, 24, "bad")
	save(t, s, 25, "bad")
	if at, _, err := load(t, newSnapshots(c, 0, 1)); !errors.Is(err, errUnusable) || at != 0 {
		t.Errorf("of two that are unusable: %d, %v", at, err)
	}
}

// TestSnapshotOfAnOlderVersion has no position in its metadata.
func TestSnapshotOfAnOlderVersion(t *testing.T) {
	c, objects := store(t)
	if _, err := objects.PutBytes(t.Context(), "fold", []byte(`{"telemetry":4,"created":"2026-01-28T14:30:00Z"}`+"\nold")); err != nil {
		t.Fatal(err)
	}
	s := newSnapshots(c, 0, 1)
	expect(t, s, 4, "old")
	save(t, s, 9, "new")
	expect(t, newSnapshots(c, 0, 1), 9, "new")
	// The older version ran again: what it wrote last is the newest.
	if _, err := objects.PutBytes(t.Context(), "fold", []byte(`{"telemetry":12,"created":"2026-01-28T14:30:00Z"}`+"\nold again")); err != nil {
		t.Fatal(err)
	}
	expect(t, newSnapshots(c, 0, 1), 12, "old again")
}

// TestTwoSaveAtOnce: an ousted owner and the new one write at the same time. What is
// read is whole, and what both leave behind is removed.
func TestTwoSaveAtOnce(t *testing.T) {
	c, _ := store(t)
	owners := []snapshots{newSnapshots(c, 0, 1), newSnapshots(c, 0, 1)}
	large := bytes.Repeat([]byte("0123456789abcdef"), 40_000) // several parts
	for round := range 10 {
		var saving sync.WaitGroup
		for i, o := range owners {
			saving.Go(func() {
				at := position{Telemetry: uint64(10*round + i + 1), Created: made}
				if err := o.save(t.Context(), at, large); err != nil {
					t.Error(err)
				}
			})
		}
		saving.Wait()
		var read []byte
		if _, err := newSnapshots(c, 0, 1).load(t.Context(), func(data []byte) error { read = data; return nil }); err != nil || !bytes.Equal(read, large) {
			t.Fatalf("round %d: %d bytes, %v", round, len(read), err)
		}
	}
	s := owners[0]
	left, err := s.sweep(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d contents were left behind", len(left))
	if left, err = s.sweep(t.Context(), left); err != nil || len(left) > 0 {
		t.Fatalf("%d are left after the sweep, %v", len(left), err)
	}
	counts, err := s.contents(t.Context(), "")
	if err != nil || len(counts) != 2 {
		t.Errorf("%d contents of two objects, %v", len(counts), err)
	}
	if _, err := newSnapshots(c, 0, 1).load(t.Context(), func([]byte) error { return nil }); err != nil {
		t.Errorf("after the sweep: %v", err)
	}
}

// TestSaveIsCancelled: what is abandoned while it saves leaves the one before.
func TestSaveIsCancelled(t *testing.T) {
	c, _ := store(t)
	s := newSnapshots(c, 0, 1)
	save(t, s, 5, "before")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.save(ctx, position{Telemetry: 6, Created: made}, []byte("never")); err == nil {
		t.Error("saved")
	}
	expect(t, newSnapshots(c, 0, 1), 5, "before")
}
