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

// TestFollowOverTheRestartOfTheStreamsServer: the stream lies on one server alone,
// and who follows it is connected to another, which stays. Nothing tells that the
// consumers are gone but their silence.
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
					t.Errorf("partition %d: %d after %d", p, m.Seq, last)
				}
				last = m.Seq
				got.Add(1)
				return nil
			})
			if err != nil {
				t.Error(err)
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
	bustest.Eventually(t, "what was sent before", func() bool { return got.Load() == apps })

	r.Restart(home)
	begin := time.Now()
	send()
	bustest.Eventually(t, "what was sent after", func() bool { return got.Load() == 2*apps })
	if took := time.Since(begin); took > within {
		t.Errorf("it took %s", took)
	}
}

// TestFollowWhereAConsumerStays: one that could not be deleted, or that nobody knows
// to be made, is not in the way of the next.
func TestFollowWhereAConsumerStays(t *testing.T) {
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
		t.Fatal("no server")
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

// TestQuestionsThatGetLost are given up long before the time of whoever asked: it can
// ask again, and does.
func TestQuestionsThatGetLost(t *testing.T) {
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("no server")
	}
	silent, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(silent.Close)
	if _, err := silent.SubscribeSync("$JS.API.>"); err != nil { // in the place of a leader that is gone
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
			t.Errorf("%s: %v, and the time of who asked: %v", name, err, ctx.Err())
		}
	}
}
