package bus_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestConflict: whoever writes a record that has changed in between is told so, on
// a single server and on a cluster.
func TestConflict(t *testing.T) {
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d servers", servers), func(t *testing.T) {
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
			for what, err := range map[string]error{"create": created, "update": updated, "publish": write()} {
				if !bus.Conflict(err) {
					t.Errorf("%s: %v is no conflict", what, err)
				}
			}
		})
	}
	for _, err := range []error{nil, errors.New("something else"), bus.ErrAway, jetstream.ErrStreamNotFound} {
		if bus.Conflict(err) {
			t.Errorf("%v is a conflict", err)
		}
	}
}
