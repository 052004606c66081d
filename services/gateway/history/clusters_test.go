package history

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestClustersWithoutAnswer checks that only a missing bucket means that no cluster is
// watched, and not one that does not answer direct gets for now.
func TestClustersWithoutAnswer(t *testing.T) {
	rig := bustest.Cluster(t, 1)
	client := busclient.New(rig.Config(bus.RoleGateway), bustest.Quiet())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- client.Run(ctx, func(ctx context.Context, _ *bus.Session) error { <-ctx.Done(); return nil })
	}()
	defer func() { stop(); <-done }()
	bustest.Eventually(t, "the bus to be reachable", func() bool { return client.Connected() == nil })
	r := New(Config{Bus: client, Logger: bustest.Quiet()})

	if all, err := r.clusters(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("clusters without a bucket = %v, %v, want none", all, err)
	}
	_, err := rig.Connect(bus.RoleProvisioner).JS.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: bus.StreamKubewatch, Subjects: []string{"$KV." + bus.BucketKubewatch + ".>"}, AllowDirect: false,
	})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := r.clusters(t.Context()); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("clusters without an answer = %v, %v, want ErrUnreachable", all, err)
	}
}
