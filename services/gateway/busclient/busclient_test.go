package busclient_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// run runs f until the test ends.
func run(t *testing.T, f func(context.Context)) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

// TestClientOverARestart: calls fail while the bus is unreachable, and work again when it
// is back.
func TestClientOverARestart(t *testing.T) {
	b := bustest.Start(t)
	c := busclient.New(b.Config(bus.RoleGateway), bustest.Quiet())
	if err := c.Connected(); !errors.Is(err, busclient.ErrUnreachable) {
		t.Errorf("Connected before Run = %v, want %v", err, busclient.ErrUnreachable)
	}
	run(t, func(ctx context.Context) {
		if err := c.Run(ctx, func(ctx context.Context, _ *bus.Session) error { <-ctx.Done(); return nil }); err != nil {
			t.Errorf("Run = %v, want no error", err)
		}
	})
	reachable := func() bool { return c.Connected() == nil }
	bustest.Eventually(t, "the bus to be reachable", reachable)
	if state, err := c.State(t.Context(), bus.StreamAlerts); err != nil || state.Messages != 0 || state.First != state.Last+1 {
		t.Errorf("State = %+v, %v, want an empty stream", state, err)
	}
	if _, err := c.State(t.Context(), "NONE"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("State of an unknown stream = %v, want %v", err, jetstream.ErrStreamNotFound)
	}
	b.Stop()
	bustest.Eventually(t, "the bus to be unreachable", func() bool { return !reachable() })
	if err := c.Explain(t.Context(), errors.New("x")); !errors.Is(err, busclient.ErrUnreachable) {
		t.Errorf("Explain = %v, want %v", err, busclient.ErrUnreachable)
	}
	b.Restart()
	bustest.Eventually(t, "the bus to be reachable again", reachable)
	if err := c.Explain(t.Context(), context.DeadlineExceeded); !errors.Is(err, busclient.ErrNoAnswer) {
		t.Errorf("Explain = %v, want %v", err, busclient.ErrNoAnswer)
	}
}

// TestProbe: readiness follows the bus.
func TestProbe(t *testing.T) {
	b := bustest.Start(t)
	p := busclient.NewProbe(b.Config(bus.RoleGateway), bustest.Quiet())
	if err := p.Ready(t.Context()); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("Ready before Run = %v, want %v", err, bus.ErrUnreachable)
	}
	run(t, p.Run)
	bustest.Eventually(t, "the probe to be ready", func() bool { return p.Ready(t.Context()) == nil && p.Connected() })
	b.Stop()
	bustest.Eventually(t, "the probe not to be ready", func() bool { return p.Ready(t.Context()) != nil && !p.Connected() })
}
