package outbox_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/kubewatch/outbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestCheckpoint checks that OpenCheckpoint reads what Save wrote, and that the slower of two writers
// is overtaken.
func TestCheckpoint(t *testing.T) {
	s := bustest.Start(t).Connect(bus.RoleKubewatch)
	doc := s.Document(bus.BucketClusters, "dev")
	open := func() (*outbox.CheckpointStore, outbox.Checkpoint) {
		t.Helper()
		store, c, err := outbox.OpenCheckpoint(t.Context(), doc)
		if err != nil {
			t.Fatal(err)
		}
		return store, c
	}
	a, got := open()
	if diff := cmp.Diff(outbox.Checkpoint{}, got); diff != "" {
		t.Errorf("first checkpoint (-want +got):\n%s", diff)
	}
	if !a.Written().IsZero() {
		t.Errorf("Written of the first checkpoint = %v, want zero", a.Written())
	}
	want := outbox.Checkpoint{ClusterUID: "u", Version: "812", Sequence: 7, Stream: time.Unix(1000, 5).UTC(), By: "a"}
	if err := a.Save(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	b, got := open()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("saved checkpoint (-want +got):\n%s", diff)
	}
	if age := time.Since(b.Written()); age > time.Minute {
		t.Errorf("Written = %s ago, want now", age)
	}
	// Another store with the id a stands for a write whose acknowledgement was lost.
	lost, _ := open()
	want.Version = "813"
	if err := lost.Save(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	want.Version = "814"
	if err := a.Save(t.Context(), want); err != nil {
		t.Errorf("Save over a checkpoint of our own = %v, want nil", err)
	}
	kv, err := s.JS.KeyValue(t.Context(), bus.BucketClusters)
	if err != nil {
		t.Fatal(err)
	}
	for name, remove := range map[string]func() error{
		"deleted": func() error { return kv.Delete(t.Context(), "dev") },
		"purged":  func() error { return kv.Purge(t.Context(), "dev") },
	} {
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		if err := a.Save(t.Context(), want); err != nil {
			t.Errorf("Save over a %s checkpoint = %v, want nil", name, err)
		}
		if _, got := open(); got != want {
			t.Errorf("checkpoint saved over a %s one = %+v, want %+v", name, got, want)
		}
	}
	want.By = "b"
	if err := b.Save(t.Context(), want); !errors.Is(err, outbox.ErrOvertaken) {
		t.Errorf("Save at an old revision = %v, want %v", err, outbox.ErrOvertaken)
	}
	if _, err := kv.Put(t.Context(), "dev", []byte("{")); err != nil {
		t.Fatal(err)
	}
	store, got, err := outbox.OpenCheckpoint(t.Context(), doc)
	if got != (outbox.Checkpoint{}) || !errors.Is(err, outbox.ErrUnreadable) {
		t.Errorf("OpenCheckpoint of an unreadable checkpoint = %+v, %v; want an empty one, %v", got, err, outbox.ErrUnreadable)
	}
	if err := store.Save(t.Context(), want); err != nil {
		t.Errorf("Save over an unreadable checkpoint = %v, want nil", err)
	}
}

// TestStoredCheckpoint checks that the checkpoints of earlier versions are read.
func TestStoredCheckpoint(t *testing.T) {
	s := bustest.Start(t).Connect(bus.RoleKubewatch)
	doc := s.Document(bus.BucketClusters, "dev")
	stored := `{"cluster_uid":"u","resource_version":"812","sequence":7,"stream":"2026-01-28T14:30:00Z","by":"a"}`
	if _, err := doc.Write(t.Context(), []byte(stored), 0); err != nil {
		t.Fatal(err)
	}
	_, got, err := outbox.OpenCheckpoint(t.Context(), doc)
	if err != nil {
		t.Fatal(err)
	}
	want := outbox.Checkpoint{ClusterUID: "u", Version: "812", Sequence: 7, Stream: time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC), By: "a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("checkpoint (-want +got):\n%s", diff)
	}
}
