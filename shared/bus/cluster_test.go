package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// receiver records what a reader was given.
type receiver struct {
	mu sync.Mutex
	// counts has the number of messages with each text.
	counts map[string]int
	last   uint64
	// disordered has the messages that came after a later one.
	disordered []string
}

func newReceiver() *receiver { return &receiver{counts: map[string]int{}} }

func (r *receiver) handle(m bus.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Seq <= r.last {
		r.disordered = append(r.disordered, fmt.Sprintf("message %d after %d", m.Seq, r.last))
	}
	r.last = m.Seq
	r.counts[string(m.Data)]++
	return nil
}

func (r *receiver) hasAll(texts []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range texts {
		if r.counts[text] == 0 {
			return false
		}
	}
	return true
}

// check fails the test for accepted messages that are missing, and for messages that came
// twice or out of order.
func (r *receiver) check(t *testing.T, reader string, accepted []string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range accepted {
		if r.counts[text] == 0 {
			t.Errorf("%s: %q was accepted and did not come", reader, text)
		}
	}
	for text, n := range r.counts {
		if n > 1 {
			t.Errorf("%s: %q came %d times, want once", reader, text, n)
		}
	}
	if len(r.disordered) > 0 {
		t.Errorf("%s: got %q, want ascending sequences", reader, r.disordered)
	}
}

// writer publishes until it is stopped, and records what was accepted.
type writer struct {
	accepted []string
	count    atomic.Int64 // of accepted
	refused  int
}

// publish publishes one message after the other until ctx ends. With ids, a message that was
// not acknowledged is published again, as a detector does; without, it is given up, as by an
// ingest service that has refused a request.
func (w *writer) publish(ctx context.Context, p *bus.Publisher, subject string, ids bool) {
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		text := fmt.Sprintf("%s %d", subject, i)
		for {
			m := &nats.Msg{Subject: subject, Data: []byte(text)}
			if ids {
				m.Header = nats.Header{jetstream.MsgIDHeader: {text}}
			}
			_, err := p.Publish(context.WithoutCancel(ctx), m)
			if err == nil {
				w.accepted = append(w.accepted, text)
				w.count.Add(1)
				break
			}
			w.refused++
			if !ids {
				break
			}
		}
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
}

// TestRollingRestart restarts each server of a cluster in turn while alerts and
// telemetry are published and followed: no accepted message is lost, and none is
// delivered twice. Alerts are still accepted while a server is down.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	rig := bustest.Cluster(t, 3)
	rig.Provision(bus.Layout{})

	publishing, stopPublishing := context.WithCancel(t.Context())
	defer stopPublishing()
	var writers sync.WaitGroup
	startWriter := func(role bus.Role, subject string, ids bool) *writer {
		p, err := bus.NewPublisher(rig.Connect(role), 64)
		if err != nil {
			t.Fatal(err)
		}
		w := &writer{}
		writers.Go(func() { w.publish(publishing, p, subject, ids) })
		return w
	}
	following, stopFollowing := context.WithCancel(t.Context())
	defer stopFollowing()
	var readers sync.WaitGroup
	startReader := func(role bus.Role, stream, url string) *receiver {
		cfg := rig.Config(role)
		cfg.Name, cfg.URL = "reader", url
		c := connect(t, cfg)
		r := newReceiver()
		readers.Go(func() {
			err := bustest.Follow(following, c, bus.FollowConfig{
				Stream: stream, Logger: quiet(),
				Recreated: func(bus.Position) { t.Errorf("stream %s was recreated, want it kept", stream) },
			}, r.handle)
			if err != nil {
				t.Errorf("follow %s = %v, want nil", stream, err)
			}
		})
		return r
	}
	gateways := map[string]*receiver{}
	for i := range rig.Len() { // each has the URL of one server, which announces the others
		gateways[fmt.Sprintf("gateway at server %d", i+1)] = startReader(bus.RoleGateway, bus.StreamAlerts, rig.URLOf(i))
	}
	detector := startReader(bus.RoleDetector, bus.StreamTelemetry, rig.URL())
	alerts := startWriter(bus.RoleDetector, "alerts.web.ci.error", true)
	events := startWriter(bus.RoleIngest, "telemetry.web.log", false)

	for i := range rig.Len() {
		rig.Stop(i)
		down := time.Now()
		before := alerts.count.Load()
		bustest.Eventually(t, "alerts while a server is down", func() bool { return alerts.count.Load() > before+20 })
		t.Logf("server %d is down: 20 alerts in %s", i+1, time.Since(down))
		rig.Start(i)
		rig.Ready()
		before = events.count.Load()
		bustest.Eventually(t, "telemetry with all servers", func() bool { return events.count.Load() > before+20 })
	}
	stopPublishing()
	writers.Wait()
	t.Logf("accepted: %d alerts, %d events; attempts that were not: %d and %d", len(alerts.accepted), len(events.accepted), alerts.refused, events.refused)
	for name, r := range gateways {
		bustest.Eventually(t, "alerts for the "+name, func() bool { return r.hasAll(alerts.accepted) })
	}
	bustest.Eventually(t, "telemetry for the detector", func() bool { return detector.hasAll(events.accepted) })
	stopFollowing()
	readers.Wait()
	for name, r := range gateways {
		r.check(t, name, alerts.accepted)
	}
	detector.check(t, "detector", events.accepted)
}

// TestReplicasLag checks that a direct read from a replica that lags returns the stream up to
// an older message, in order and without gaps. Reading on returns the rest.
func TestReplicasLag(t *testing.T) {
	t.Parallel()
	rig := bustest.Cluster(t, 3)
	rig.Provision(bus.Layout{})
	p, err := bus.NewPublisher(rig.Connect(bus.RoleDetector), 64)
	if err != nil {
		t.Fatal(err)
	}
	var readers []*bus.Session
	for i := range rig.Len() {
		cfg := rig.Config(bus.RoleGateway)
		cfg.Name, cfg.URL = "reader", rig.URLOf(i)
		c := connect(t, cfg)
		bustest.Eventually(t, "connection", c.Connected)
		readers = append(readers, c)
	}
	read := make([][]bus.Message, len(readers))
	const alerts = 200
	lagged := 0
	for i := range alerts {
		if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "alerts.web.ci.error", Data: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
		for r, c := range readers {
			msgs, err := c.Read(t.Context(), bus.StreamAlerts, uint64(len(read[r])+1), alerts)
			if err != nil {
				t.Fatal(err)
			}
			read[r] = append(read[r], msgs...)
			if len(read[r]) <= i {
				lagged++
			}
		}
	}
	t.Logf("%d of %d reads lacked the newest alert", lagged, alerts*len(readers))
	for r, c := range readers {
		bustest.Eventually(t, "all alerts", func() bool {
			msgs, err := c.Read(t.Context(), bus.StreamAlerts, uint64(len(read[r])+1), alerts)
			if err != nil {
				t.Fatal(err)
			}
			read[r] = append(read[r], msgs...)
			return len(read[r]) >= alerts
		})
		for i, m := range read[r] {
			if m.Seq != uint64(i+1) || string(m.Data) != fmt.Sprint(i) {
				t.Fatalf("server %d: message %d has sequence %d and data %s, want sequence %d and data %d", r+1, i, m.Seq, m.Data, i+1, i)
			}
		}
	}
}

// TestReplicasAreRaised checks that a stream with one replica, as earlier versions made it, gets
// three and keeps its messages, and that one with three keeps these.
func TestReplicasAreRaised(t *testing.T) {
	t.Parallel()
	rig := bustest.Cluster(t, 3)
	rig.Provision(bus.Layout{Replicas: 1})
	c := rig.Connect(bus.RoleDetector)
	replicas := func(stream string) int {
		t.Helper()
		s, err := c.JS.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Config.Replicas
	}
	p, err := bus.NewPublisher(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "alerts.web.ci.error", Data: []byte("kept")}); err != nil {
		t.Fatal(err)
	}
	if got := replicas(bus.StreamAlerts); got != 1 {
		t.Fatalf("%s has %d replicas, want 1", bus.StreamAlerts, got)
	}
	// A service that may not add replicas logs that, and works.
	if err := bus.Provision(t.Context(), c, bus.Layout{}, quiet()); err != nil {
		t.Errorf("Provision as a detector = %v, want nil", err)
	}
	rig.Provision(bus.Layout{})
	rig.Provision(bus.Layout{Replicas: 1}) // never fewer
	for stream, want := range map[string]int{bus.StreamAlerts: 3, "KV_" + bus.BucketOwners: 3, bus.StreamTelemetry: 1} {
		if got := replicas(stream); got != want {
			t.Errorf("%s has %d replicas, want %d", stream, got, want)
		}
	}
	reader := rig.Connect(bus.RoleGateway)
	bustest.Eventually(t, "message from before", func() bool {
		msgs, err := reader.Read(t.Context(), bus.StreamAlerts, 1, 10)
		return err == nil && len(msgs) == 1 && string(msgs[0].Data) == "kept"
	})
	// The configuration has three replicas at once. The servers create them one after the
	// other; until then the first one's server is needed.
	bustest.Eventually(t, "three current replicas", func() bool {
		s, err := c.JS.Stream(t.Context(), bus.StreamAlerts)
		if err != nil {
			return false
		}
		cluster := s.CachedInfo().Cluster
		return cluster.Desired == nil && len(cluster.Replicas) == 2 && cluster.Replicas[0].Current && cluster.Replicas[1].Current
	})
	for i := range rig.Len() { // one of them has the first replica
		rig.Stop(i)
		bustest.Eventually(t, "alert with a server down", func() bool {
			_, err := p.Publish(t.Context(), &nats.Msg{Subject: "alerts.web.ci.error", Data: []byte("more")})
			return err == nil
		})
		rig.Start(i)
		rig.Ready()
	}
}

// TestTooFewServers checks that the error for more replicas than servers names the fix.
func TestTooFewServers(t *testing.T) {
	t.Parallel()
	rig := bustest.Cluster(t, 3)
	c := rig.Connect(bus.RoleProvisioner)
	err := bus.Provision(t.Context(), c, bus.Layout{Replicas: 5}, quiet())
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != 10005 {
		t.Errorf("Provision with five replicas on three servers = %v, want the server's error 10005", err)
	}
	for _, want := range []string{"start more servers", "TOCSIN_REPLICAS"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("Provision with five replicas on three servers = %v, want %q in it", err, want)
		}
	}
}
