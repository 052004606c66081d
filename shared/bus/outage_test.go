package bus_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestFollowOverTheRestartOfTheStreamsServer has a stream on one server alone, and readers that
// are connected to another server, which stays up. The readers find out that their consumers
// are gone only because these are silent.
func TestFollowOverTheRestartOfTheStreamsServer(t *testing.T) {
	const (
		partitions, apps = 3, 12
		// within is shorter than what is left, after the restart, of the 10 s in which
		// the client's own ordered consumer finds out.
		within = 6 * time.Second
	)
	r := bustest.Cluster(t, 3)
	r.Provision(bus.Layout{Partitions: partitions})
	home := r.Leader(bus.StreamTelemetry)
	on := func(server int, role bus.Role) *bus.Session {
		cfg := r.Config(role)
		cfg.URL = r.URLOf(server)
		c := connect(t, cfg)
		bustest.Eventually(t, "connection", c.Connected)
		return c
	}
	reader, writer := on((home+1)%3, bus.RoleDetector), on((home+2)%3, bus.RoleIngest)
	publisher, err := bus.NewPublisher(writer, apps)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	var got atomic.Int64
	for p := range partitions {
		following.Go(func() {
			var last uint64
			cfg := bus.FollowConfig{Stream: bus.StreamTelemetry, Subjects: bus.TelemetryOf(p, partitions), Logger: quiet()}
			err := bustest.Follow(ctx, reader, cfg, func(m bus.Message) error {
				if m.Seq <= last {
					t.Errorf("partition %d: got message %d after %d, want ascending sequences", p, m.Seq, last)
				}
				last = m.Seq
				got.Add(1)
				return nil
			})
			if err != nil {
				t.Errorf("partition %d: Follow = %v, want nil", p, err)
			}
		})
	}
	send := func() {
		t.Helper()
		for i := range apps {
			m := &nats.Msg{Subject: fmt.Sprintf("telemetry.app%d.log", i), Data: []byte("[]")}
			if _, err := publisher.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	send()
	bustest.Eventually(t, "messages sent before the restart", func() bool { return got.Load() == apps })

	r.Restart(home)
	begin := time.Now()
	send()
	bustest.Eventually(t, "messages sent after the restart", func() bool { return got.Load() == 2*apps })
	if took := time.Since(begin); took > within {
		t.Errorf("the readers had all messages %s after the restart, want at most %s", took, within)
	}
}

// TestFollowWhereAConsumerStays checks that a consumer that could not be deleted is not in the
// way of the next one.
func TestFollowWhereAConsumerStays(t *testing.T) {
	t.Parallel()
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Users: []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.CONSUMER.DELETE.>"}},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("timed out waiting for the server")
	}
	c := connect(t, bus.Config{Name: "u", Role: bus.RoleProvisioner, URL: strings.Replace(ns.ClientURL(), "://", "://u:p@", 1)})
	bustest.Eventually(t, "connection", c.Connected)
	if err := bus.Provision(t.Context(), c, bus.Layout{}, quiet()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	var got atomic.Int64
	following.Go(func() {
		_ = bustest.Follow(ctx, c, bus.FollowConfig{Stream: bus.StreamTelemetry, Logger: quiet()}, func(bus.Message) error {
			got.Add(1)
			return nil
		}) // it fails only when the function does
	})
	for n := range int64(3) {
		if _, err := c.JS.Publish(t.Context(), "telemetry.web.log", []byte("[]")); err != nil {
			t.Fatal(err)
		}
		bustest.Eventually(t, "message", func() bool { return got.Load() == n+1 })
		if err := c.NC.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		bustest.Eventually(t, "connection", c.Connected)
	}
}

// TestLostQuestions checks that a question to the bus that gets no answer ends long before the
// context of the caller, who can then ask again.
func TestLostQuestions(t *testing.T) {
	t.Parallel()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("timed out waiting for the server")
	}
	silent, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(silent.Close)
	if _, err := silent.SubscribeSync("$JS.API.>"); err != nil { // as a leader that is gone
		t.Fatal(err)
	}
	if err := silent.Flush(); err != nil {
		t.Fatal(err)
	}
	c := connect(t, bus.Config{Name: "asks", Role: bus.RoleDetector, URL: ns.ClientURL()})
	bustest.Eventually(t, "connection", c.Connected)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, ask := range map[string]func() error{
		"provision":  func() error { return bus.Provision(ctx, c, bus.Layout{}, quiet()) },
		"partitions": func() error { _, err := c.Partitions(ctx); return err },
	} {
		if err := ask(); err == nil || ctx.Err() != nil {
			t.Errorf("%s = %v with context error %v, want an error before the context ends", name, err, ctx.Err())
		}
	}
}
