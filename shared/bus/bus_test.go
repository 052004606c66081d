package bus_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// TestMain runs up to 4 tests in parallel on any machine: these mostly wait for elections.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func quiet() *slog.Logger { return bustest.Quiet() }

// guarded refuses the websocket to http://evil.example.
func guarded(dir statedir.Dir) embedded.Config {
	return embedded.Config{Dir: dir, WSAddr: "127.0.0.1:0", WSGuard: func(r *http.Request) error {
		if r.Header.Get("Origin") == "http://evil.example" {
			return errors.New("origin refused")
		}
		return nil
	}}
}

// serve runs a bus with a websocket on dir, as tocsin up does. The returned function stops it.
func serve(t *testing.T, dir statedir.Dir) (*embedded.Server, func()) {
	t.Helper()
	b := bustest.StartWith(t, guarded(dir))
	return b.Server, b.Stop
}

func connect(t *testing.T, cfg bus.Config) *bus.Session {
	t.Helper()
	cfg.Logger = quiet()
	c, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestFollowSurvivesARestartAtAnotherAddress(t *testing.T) {
	dir := bustest.OpenDir(t)
	c := connect(t, bus.Config{Name: "early", Role: bus.RoleDetector, Dir: dir}) // before the bus
	if c.Connected() {
		t.Fatal("Connected before the bus runs = true, want false")
	}
	s, stop := serve(t, dir)
	first := s.URL()
	bustest.Eventually(t, "connection", c.Connected)

	got := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- bustest.Follow(ctx, c, bus.FollowConfig{Stream: bus.StreamTelemetry, Logger: quiet()}, func(m bus.Message) error {
			got <- string(m.Data)
			return nil
		})
	}()
	publish := func(s *embedded.Server, from, to int) {
		in := connect(t, bus.Config{Name: "in", Role: bus.RoleIngest, Server: s})
		defer in.Close()
		p, err := bus.NewPublisher(in, 16)
		if err != nil {
			t.Fatal(err)
		}
		for i := from; i < to; i++ {
			if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "telemetry.web.log", Data: []byte(fmt.Sprint(i))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(s, 0, 10)
	stop()
	bustest.Eventually(t, "disconnection", func() bool { return !c.Connected() })
	s, _ = serve(t, dir)
	if s.URL() == first {
		t.Skip("the kernel gave the same port twice")
	}
	publish(s, 10, 20)
	for i := range 20 {
		select {
		case m := <-got:
			if m != fmt.Sprint(i) {
				t.Fatalf("message %d = %s, want %[1]d", i, m)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("timed out waiting for message %d", i)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	str, err := connect(t, bus.Config{Name: "check", Role: bus.RoleDetector, Server: s}).JS.Stream(t.Context(), bus.StreamTelemetry)
	if err != nil {
		t.Fatal(err)
	}
	if n := str.CachedInfo().State.Consumers; n != 0 {
		t.Fatalf("%d consumers are left, want 0", n)
	}
}

// TestFollowOfARecreatedStore checks that a reader that continues after the restart of a bus
// whose store was deleted follows the new streams.
func TestFollowOfARecreatedStore(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, stop := serve(t, dir)
	c := connect(t, bus.Config{Name: "reader", Role: bus.RoleDetector, Dir: dir})
	bustest.Eventually(t, "connection", c.Connected)
	got := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	recreated := make(chan struct{}, 1)
	go func() {
		done <- bustest.Follow(ctx, c, bus.FollowConfig{
			Stream: bus.StreamTelemetry, Logger: quiet(),
			Recreated: func(bus.Position) { recreated <- struct{}{} },
		}, func(m bus.Message) error {
			got <- string(m.Data)
			return nil
		})
	}()
	publish := func(s *embedded.Server, texts ...string) {
		in := connect(t, bus.Config{Name: "in", Role: bus.RoleIngest, Server: s})
		defer in.Close()
		p, err := bus.NewPublisher(in, 16)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "telemetry.web.log", Data: []byte(text)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(texts ...string) {
		t.Helper()
		for _, want := range texts {
			select {
			case m := <-got:
				if m != want {
					t.Fatalf("got message %q, want %q", m, want)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("timed out waiting for message %q", want)
			}
		}
	}
	publish(s, "a", "b", "c", "d", "e")
	expect("a", "b", "c", "d", "e")
	stop()
	bustest.Eventually(t, "disconnection", func() bool { return !c.Connected() })
	if err := os.RemoveAll(filepath.Join(dir.Path(), "jetstream")); err != nil {
		t.Fatal(err)
	}
	s, _ = serve(t, dir)
	publish(s, "f", "g")
	expect("f", "g")
	<-recreated
	publish(s, "h")
	expect("h")
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
