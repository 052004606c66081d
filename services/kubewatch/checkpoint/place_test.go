package checkpoint_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch/checkpoint"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestPlace: what one writes the next one reads; of two that write, one is overtaken.
func TestPlace(t *testing.T) {
	r := bustest.Cluster(t, 1)
	r.Provision(bus.Layout{})
	kv, err := r.Connect(bus.RoleKubewatch).JS.KeyValue(t.Context(), bus.BucketClusters)
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*checkpoint.Keeper, checkpoint.Place) {
		t.Helper()
		k, p, err := checkpoint.Open(t.Context(), kv, "dev")
		if err != nil {
			t.Fatal(err)
		}
		return k, p
	}
	a, p := open()
	if p != (checkpoint.Place{}) || !a.Written().IsZero() {
		t.Errorf("at first: %+v", p)
	}
	want := checkpoint.Place{ClusterUID: "u", Version: "812", Sequence: 7, Stream: time.Unix(1000, 5).UTC(), By: "a"}
	if err := a.Save(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	b, p := open()
	if p != want || time.Since(b.Written()) > time.Minute {
		t.Errorf("%+v, want %+v", p, want)
	}
	// An answer that a did not get: what stands there is its own.
	lost, _ := open()
	want.Version = "813"
	if err := lost.Save(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	want.Version = "814"
	if err := a.Save(t.Context(), want); err != nil {
		t.Errorf("its own: %v", err)
	}
	// Who empties the bucket does not keep it empty.
	for name, empty := range map[string]func() error{
		"deleted": func() error { return kv.Delete(t.Context(), "dev") },
		"purged":  func() error { return kv.Purge(t.Context(), "dev") },
	} {
		if err := empty(); err != nil {
			t.Fatal(err)
		}
		if err := a.Save(t.Context(), want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, p := open(); p != want {
			t.Errorf("%s: %+v, want %+v", name, p, want)
		}
	}
	want.By = "b"
	if err := b.Save(t.Context(), want); !errors.Is(err, checkpoint.ErrOvertaken) {
		t.Errorf("overtaken: %v", err)
	}
	if _, err := kv.Put(t.Context(), "dev", []byte("{")); err != nil {
		t.Fatal(err)
	}
	k, p, err := checkpoint.Open(t.Context(), kv, "dev")
	if p != (checkpoint.Place{}) || !errors.Is(err, checkpoint.ErrUnreadable) {
		t.Errorf("of another version: %+v, %v", p, err)
	}
	if err := k.Save(t.Context(), want); err != nil {
		t.Errorf("over it: %v", err)
	}
}
