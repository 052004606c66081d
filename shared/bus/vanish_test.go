package bus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestAServerThatVanishes checks that a reader whose server stops answering, while the
// connection stays open, finds another server by itself and receives each alert once.
func TestAServerThatVanishes(t *testing.T) {
	t.Parallel()
	rig := bustest.Cluster(t, 3)
	rig.Provision(bus.Layout{})
	proxy := bustest.NewProxy(t, rig.URLOf(0))
	cfg := rig.Config(bus.RoleGateway)
	cfg.Name, cfg.URL = "reader", proxy.URL()
	reader := connect(t, cfg)
	bustest.Eventually(t, "connection of the reader", reader.Connected)
	received := newReceiver()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	followed := make(chan error, 1)
	go func() {
		followed <- bustest.Follow(ctx, reader, bus.FollowConfig{Stream: bus.StreamAlerts, Logger: quiet()}, received.handle)
	}()
	cfg = rig.Config(bus.RoleDetector)
	cfg.Name, cfg.URL = "writer", rig.URLOf(1)
	writer := connect(t, cfg)
	bustest.Eventually(t, "connection of the writer", writer.Connected)
	publisher, err := bus.NewPublisher(writer, 1)
	if err != nil {
		t.Fatal(err)
	}
	var accepted []string
	publish := func() {
		t.Helper()
		text := fmt.Sprint(len(accepted))
		if _, err := publisher.Publish(t.Context(), &nats.Msg{Subject: "alerts.web.ci.error", Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, text)
	}
	publish()
	bustest.Eventually(t, "first alert", func() bool { return received.hasAll(accepted) })
	proxy.Stall()
	begun := time.Now()
	for range 10 {
		publish()
	}
	bustest.Eventually(t, "alerts from another server", func() bool { return received.hasAll(accepted) })
	t.Logf("the reader had the alerts %s after its server vanished", time.Since(begun))
	publish()
	bustest.Eventually(t, "alert after that", func() bool { return received.hasAll(accepted) })
	stop()
	if err := <-followed; err != nil {
		t.Errorf("Follow = %v, want nil", err)
	}
	received.check(t, "the reader", accepted)
}
