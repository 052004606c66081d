package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestConflict checks that writing a record that has changed in between is an error, on
// a single server and on a cluster.
func TestConflict(t *testing.T) {
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d servers", servers), func(t *testing.T) {
			t.Parallel()
			r := bustest.Cluster(t, servers)
			r.Provision(bus.Layout{})
			c := r.Connect(bus.RoleGateway)
			kv, err := c.JS.KeyValue(t.Context(), bus.BucketSilences)
			if err != nil {
				t.Fatal(err)
			}
			first, err := kv.Create(t.Context(), bus.KeyAcks, []byte("1"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := kv.Update(t.Context(), bus.KeyAcks, []byte("2"), first); err != nil {
				t.Fatal(err)
			}
			write := func() error {
				_, err := c.JS.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV." + bus.BucketSilences + "." + bus.KeyAcks}, jetstream.WithExpectLastSequencePerSubject(first))
				return err
			}
			_, created := kv.Create(t.Context(), bus.KeyAcks, []byte("3"))
			_, updated := kv.Update(t.Context(), bus.KeyAcks, []byte("3"), first)
			for operation, err := range map[string]error{"create": created, "update": updated, "publish": write()} {
				if !bus.Conflict(err) {
					t.Errorf("%s = %v, want a conflict", operation, err)
				}
			}
		})
	}
	for _, err := range []error{nil, errors.New("something else"), bus.ErrUnreachable, jetstream.ErrStreamNotFound} {
		if bus.Conflict(err) {
			t.Errorf("Conflict(%v) = true, want false", err)
		}
	}
}

func TestDocument(t *testing.T) {
	s := bustest.Start(t).Connect(bus.RoleGateway)
	d := s.Document(bus.BucketGateways, "x.y")
	if e, err := d.Get(t.Context()); err != nil || e.Exists() || e.Revision != 0 {
		t.Fatalf("Get before the first write = %+v, %v, want none", e, err)
	}
	set := func(data string) func(bus.Entry) ([]byte, error) {
		return func(bus.Entry) ([]byte, error) { return []byte(data), nil }
	}
	first, err := d.Update(t.Context(), set("1"))
	if err != nil || string(first.Data) != "1" || !first.Exists() {
		t.Fatalf("first Update = %+v, %v, want data 1", first, err)
	}
	second, err := d.Update(t.Context(), func(old bus.Entry) ([]byte, error) { return append(old.Data, '2'), nil })
	if err != nil || second.Revision <= first.Revision {
		t.Fatalf("second Update = %+v, %v, want a revision after %d", second, err, first.Revision)
	}
	e, err := d.Get(t.Context())
	if err != nil || string(e.Data) != "12" || e.Revision != second.Revision || time.Since(e.Written) > time.Minute {
		t.Errorf("Get = %+v, %v, want 12 at revision %d", e, err, second.Revision)
	}
	if got, err := d.Update(t.Context(), func(bus.Entry) ([]byte, error) { return nil, bus.ErrUnchanged }); err != nil || got.Revision != e.Revision {
		t.Errorf("Update with ErrUnchanged = %+v, %v, want revision %d", got, err, e.Revision)
	}
	errRefused := errors.New("refused")
	if _, err := d.Update(t.Context(), func(bus.Entry) ([]byte, error) { return nil, errRefused }); !errors.Is(err, errRefused) {
		t.Errorf("Update with an error = %v, want that error", err)
	}

	if _, err := d.Write(t.Context(), []byte("late"), first.Revision); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("Write over a newer revision = %v, want ErrConflict", err)
	}
	if err := d.Delete(t.Context(), first.Revision); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("Delete of a newer revision = %v, want ErrConflict", err)
	}
	if err := d.Delete(t.Context(), e.Revision); err != nil {
		t.Fatal(err)
	}
	deleted, err := d.Get(t.Context())
	if err != nil || deleted.Exists() || deleted.Data != nil || deleted.Revision <= e.Revision {
		t.Errorf("Get after Delete = %+v, %v, want none with the revision of the deletion", deleted, err)
	}
	if e, err := d.Update(t.Context(), set("again")); err != nil || !e.Exists() {
		t.Errorf("Update after Delete = %+v, %v, want a document", e, err)
	}

	// The client library reads what a Document has written, and the reverse.
	kv, err := s.JS.KeyValue(t.Context(), bus.BucketGateways)
	if err != nil {
		t.Fatal(err)
	}
	if entry, err := kv.Get(t.Context(), "x.y"); err != nil || string(entry.Value()) != "again" {
		t.Errorf("KeyValue.Get = %v, %v, want again", entry, err)
	}
	if err := kv.Purge(t.Context(), "x.y"); err != nil {
		t.Fatal(err)
	}
	if e, err := d.Get(t.Context()); err != nil || e.Exists() {
		t.Errorf("Get after a purge = %+v, %v, want none", e, err)
	}
	if _, err := s.Document("nosuch", "x").Get(t.Context()); !errors.Is(err, bus.ErrDenied) {
		t.Errorf("Get of another bucket = %v, want ErrDenied", err)
	}
	if _, err := s.Document("nosuch", "x").Write(t.Context(), nil, 0); !errors.Is(err, bus.ErrDenied) {
		t.Errorf("Write of another bucket = %v, want ErrDenied", err)
	}
}

// TestDocumentConflicts: writers that change a document at the same time all succeed,
// and no change is lost.
func TestDocumentConflicts(t *testing.T) {
	b := bustest.Start(t)
	const writers, changes = 4, 5
	var group errgroup.Group
	for range writers {
		d := b.Connect(bus.RoleGateway).Document(bus.BucketSilences, bus.KeySilences)
		group.Go(func() error {
			for range changes {
				for {
					_, err := d.Update(t.Context(), func(old bus.Entry) ([]byte, error) { return append(old.Data, '+'), nil })
					if err == nil {
						break
					}
					if !errors.Is(err, bus.ErrConflict) {
						return err
					}
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	e, err := b.Connect(bus.RoleGateway).Document(bus.BucketSilences, bus.KeySilences).Get(t.Context())
	if err != nil || len(e.Data) != writers*changes {
		t.Errorf("%d changes are stored, %v, want %d", len(e.Data), err, writers*changes)
	}
}

// TestDocumentConflictStorm checks that attempts are bounded where another process always
// writes first.
func TestDocumentConflictStorm(t *testing.T) {
	t.Parallel()
	s := bustest.Start(t).Connect(bus.RoleGateway)
	d := s.Document(bus.BucketGateways, "busy")
	attempts := 0
	_, err := d.Update(t.Context(), func(bus.Entry) ([]byte, error) {
		attempts++
		_, err := s.JS.Publish(t.Context(), "$KV."+bus.BucketGateways+".busy", []byte("faster"))
		return []byte("slower"), err
	})
	if !errors.Is(err, bus.ErrConflict) {
		t.Errorf("Update = %v, want ErrConflict", err)
	}
	if attempts != 10 {
		t.Errorf("%d attempts, want 10", attempts)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = d.Update(ctx, func(bus.Entry) ([]byte, error) {
		cancel()
		return nil, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Update in a context that ends = %v, want context.Canceled", err)
	}
}
