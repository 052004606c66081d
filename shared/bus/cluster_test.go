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

// heard is what a follower was handed.
type heard struct {
	mu     sync.Mutex
	times  map[string]int
	last   uint64
	unruly []string
}

func (h *heard) hear(m bus.Message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.Seq <= h.last {
		h.unruly = append(h.unruly, fmt.Sprintf("%d after %d", m.Seq, h.last))
	}
	h.last = m.Seq
	h.times[string(m.Data)]++
	return nil
}

func (h *heard) has(what []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range what {
		if h.times[w] == 0 {
			return false
		}
	}
	return true
}

// check says what is missing, and what was handed on twice.
func (h *heard) check(t *testing.T, who string, accepted []string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, what := range accepted {
		if h.times[what] == 0 {
			t.Errorf("%s: %s was accepted and did not come", who, what)
		}
	}
	for what, n := range h.times {
		if n > 1 {
			t.Errorf("%s: %s came %d times", who, what, n)
		}
	}
	for _, u := range h.unruly {
		t.Errorf("%s: %s", who, u)
	}
}

// telling publishes until it is stopped, and remembers what was accepted.
type telling struct {
	accepted []string
	count    atomic.Int64 // of accepted
	refused  int
}

// tell publishes one message after the other. With ids, one that was not
// acknowledged is said again, as a detector does; else it is given up, as by an
// ingest service that has refused it.
func (s *telling) tell(ctx context.Context, p *bus.Publisher, subject string, ids bool) {
	for i := 0; ctx.Err() == nil; i++ {
		what := fmt.Sprintf("%s %d", subject, i)
		for {
			m := &nats.Msg{Subject: subject, Data: []byte(what)}
			if ids {
				m.Header = nats.Header{jetstream.MsgIDHeader: {what}}
			}
			_, err := p.Publish(context.WithoutCancel(ctx), m)
			if err == nil {
				s.accepted = append(s.accepted, what)
				s.count.Add(1)
				break
			}
			s.refused++
			if !ids {
				break
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestRollingRestart restarts each server of a cluster in turn while alerts and
// telemetry are published and followed: nothing accepted is lost, and nothing is
// handed on twice. Alerts go on while a server is down.
func TestRollingRestart(t *testing.T) {
	rig := bustest.Cluster(t, 3)
	rig.Provision(bus.Layout{})

	telling1, stopTelling := context.WithCancel(t.Context())
	defer stopTelling()
	var speakers sync.WaitGroup
	speak := func(role bus.Role, subject string, ids bool) *telling {
		p, err := bus.NewPublisher(rig.Connect(role), 64)
		if err != nil {
			t.Fatal(err)
		}
		s := &telling{}
		speakers.Go(func() { s.tell(telling1, p, subject, ids) })
		return s
	}
	listening, stopListening := context.WithCancel(t.Context())
	defer stopListening()
	var listeners sync.WaitGroup
	listen := func(role bus.Role, stream, url string) *heard {
		cfg := rig.Config(role)
		cfg.Name, cfg.URL = "listener", url
		c := connect(t, cfg)
		h := &heard{times: map[string]int{}}
		listeners.Go(func() {
			err := bustest.Follow(listening, c, bus.FollowConfig{
				Stream: stream, Logger: quiet(),
				Recreated: func(bus.Position) { t.Errorf("%s was recreated", stream) },
			}, h.hear)
			if err != nil {
				t.Error(err)
			}
		})
		return h
	}
	ears := map[string]*heard{}
	for i := range rig.Len() { // each knows of one server only; of the others it is told
		ears[fmt.Sprintf("gateway at server %d", i+1)] = listen(bus.RoleGateway, bus.StreamAlerts, rig.URLOf(i))
	}
	detector := listen(bus.RoleDetector, bus.StreamTelemetry, rig.URL())
	alerts := speak(bus.RoleDetector, "alerts.web.ci.error", true)
	events := speak(bus.RoleIngest, "telemetry.web.log", false)

	for i := range rig.Len() {
		rig.Stop(i)
		down := time.Now()
		before := alerts.count.Load()
		patiently(t, "alert while a server is down", func() bool { return alerts.count.Load() > before+20 })
		t.Logf("server %d is down: 20 alerts in %s", i+1, time.Since(down))
		rig.Start(i)
		rig.Ready()
		before = events.count.Load()
		patiently(t, "telemetry once all are there", func() bool { return events.count.Load() > before+20 })
	}
	stopTelling()
	speakers.Wait()
	t.Logf("%d alerts, %d events accepted; %d and %d tries were not", len(alerts.accepted), len(events.accepted), alerts.refused, events.refused)
	for who, h := range ears {
		patiently(t, "alerts for the "+who, func() bool { return h.has(alerts.accepted) })
	}
	patiently(t, "telemetry for the detector", func() bool { return detector.has(events.accepted) })
	stopListening()
	listeners.Wait()
	for who, h := range ears {
		h.check(t, who, alerts.accepted)
	}
	detector.check(t, "detector", events.accepted)
}

// patiently waits for what takes elections.
func patiently(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within a minute", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestReplicasLag: what a direct read gives is never torn: an older beginning of
// the stream, in order, to which reading on adds what is missing.
func TestReplicasLag(t *testing.T) {
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
		patiently(t, "all alerts", func() bool {
			msgs, err := c.Read(t.Context(), bus.StreamAlerts, uint64(len(read[r])+1), alerts)
			if err != nil {
				t.Fatal(err)
			}
			read[r] = append(read[r], msgs...)
			return len(read[r]) >= alerts
		})
		for i, m := range read[r] {
			if m.Seq != uint64(i+1) || string(m.Data) != fmt.Sprint(i) {
				t.Fatalf("at server %d: %s at %d in place of %d", r+1, m.Data, m.Seq, i)
			}
		}
	}
}

// TestReplicasAreRaised: what an earlier version made with one copy gets three, and
// keeps what it holds; what has three keeps them.
func TestReplicasAreRaised(t *testing.T) {
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
		t.Fatalf("%d replicas", got)
	}
	// A service that may not give it more says so, and works.
	if err := bus.Provision(t.Context(), c, bus.Layout{}, quiet()); err != nil {
		t.Errorf("a service on it: %v", err)
	}
	rig.Provision(bus.Layout{})
	rig.Provision(bus.Layout{Replicas: 1}) // never fewer
	for stream, want := range map[string]int{bus.StreamAlerts: 3, "KV_" + bus.BucketOwners: 3, bus.StreamTelemetry: 1} {
		if got := replicas(stream); got != want {
			t.Errorf("%s has %d replicas", stream, got)
		}
	}
	reader := rig.Connect(bus.RoleGateway)
	patiently(t, "what it held", func() bool {
		msgs, err := reader.Read(t.Context(), bus.StreamAlerts, 1, 10)
		return err == nil && len(msgs) == 1 && string(msgs[0].Data) == "kept"
	})
	// The configuration says three from the beginning; the copies are made one after
	// the other, and until then the first one's server is needed.
	patiently(t, "three copies", func() bool {
		s, err := c.JS.Stream(t.Context(), bus.StreamAlerts)
		if err != nil {
			return false
		}
		cluster := s.CachedInfo().Cluster
		return cluster.Desired == nil && len(cluster.Replicas) == 2 && cluster.Replicas[0].Current && cluster.Replicas[1].Current
	})
	for i := range rig.Len() { // wherever the first copy was
		rig.Stop(i)
		patiently(t, "alert with a server down", func() bool {
			_, err := p.Publish(t.Context(), &nats.Msg{Subject: "alerts.web.ci.error", Data: []byte("more")})
			return err == nil
		})
		rig.Start(i)
		rig.Ready()
	}
}

// TestTooFewServers: what can't be is said with what to do.
func TestTooFewServers(t *testing.T) {
	rig := bustest.Cluster(t, 3)
	c := rig.Connect(bus.RoleProvisioner)
	err := bus.Provision(t.Context(), c, bus.Layout{Replicas: 5}, quiet())
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != 10005 {
		t.Errorf("five copies on three servers: %v", err)
	}
	if text := fmt.Sprint(err); !contains(text, "start more servers", "TOCSIN_REPLICAS") {
		t.Errorf("it is said as %s", text)
	}
}

func contains(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
