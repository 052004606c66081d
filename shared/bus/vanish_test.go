package bus_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// wire passes bytes between clients and one server until it is cut: then they
// vanish, and nobody is told.
type wire struct {
	net.Listener
	cut  atomic.Bool
	done sync.WaitGroup
	mu   sync.Mutex
	ends []net.Conn
}

func lay(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l}
	w.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			w.mu.Lock()
			w.ends = append(w.ends, c, s)
			w.mu.Unlock()
			w.done.Go(func() { w.pass(c, s) })
			w.done.Go(func() { w.pass(s, c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		for _, c := range w.ends {
			_ = c.Close()
		}
		w.mu.Unlock()
		w.done.Wait()
	})
	return w
}

func (w *wire) pass(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if w.cut.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestAServerThatVanishes: a follower whose server says nothing any more, without
// the connection's end, finds another one by itself, and has everything once.
func TestAServerThatVanishes(t *testing.T) {
	rig := bustest.Cluster(t, 3)
	rig.Provision(bus.Layout{})
	w := lay(t, strings.TrimPrefix(rig.URLOf(0), "nats://"))
	cfg := rig.Config(bus.RoleGateway)
	cfg.Name, cfg.URL = "follower", "nats://"+w.Addr().String()
	c := connect(t, cfg)
	bustest.Eventually(t, "connection", c.Connected)
	h := &heard{times: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	go func() {
		followed <- bustest.Follow(ctx, c, bus.FollowConfig{Stream: bus.StreamAlerts, Logger: quiet()}, h.hear)
	}()
	other := rig.Config(bus.RoleDetector)
	other.Name, other.URL = "speaker", rig.URLOf(1)
	speaker := connect(t, other)
	bustest.Eventually(t, "connection", speaker.Connected)
	p, err := bus.NewPublisher(speaker, 1)
	if err != nil {
		t.Fatal(err)
	}
	var accepted []string
	say := func() {
		t.Helper()
		what := fmt.Sprint(len(accepted))
		if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "alerts.web.ci.error", Data: []byte(what)}); err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, what)
	}
	say()
	patiently(t, "first alert", func() bool { return h.has(accepted) })
	w.cut.Store(true)
	began := time.Now()
	for range 10 {
		say()
	}
	patiently(t, "alerts by another server", func() bool { return h.has(accepted) })
	t.Logf("the follower had them %s after its server vanished", time.Since(began))
	say()
	patiently(t, "alert after that", func() bool { return h.has(accepted) })
	stop()
	if err := <-followed; err != nil {
		t.Error(err)
	}
	h.check(t, "the follower", accepted)
}
