package bus_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// TestOnce checks that one attempt to connect succeeds, or fails within its time.
func TestOnce(t *testing.T) {
	dir := bustest.OpenDir(t)
	const patience = 100 * time.Millisecond
	once := func(cfg bus.Config) (*bus.Session, error) {
		cfg.Name, cfg.Role, cfg.Once, cfg.Logger = "once", bus.RoleGateway, patience, quiet()
		return bus.Connect(t.Context(), cfg)
	}
	if _, err := once(bus.Config{Dir: dir}); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("Connect without a bus = %v, want ErrUnreachable", err)
	}
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]net.Listener{"dead": dead, "mute": mute} {
		begun := time.Now()
		_, err := once(bus.Config{URL: "nats://" + l.Addr().String()})
		if took := time.Since(begun); !errors.Is(err, bus.ErrUnreachable) || took > 10*patience {
			t.Errorf("Connect to a %s server = %v after %v, want ErrUnreachable within %v", name, err, took, 10*patience)
		}
	}
	_, stop := serve(t, dir)
	var c *bus.Session
	bustest.Eventually(t, "connection in one attempt", func() bool { c, err = once(bus.Config{Dir: dir}); return err == nil })
	defer c.Close()
	if !c.Connected() {
		t.Error("Connected = false, want true")
	}
	stop()
	bustest.Eventually(t, "closed connection", c.NC.IsClosed)
	lock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Release() }()
	if err := lock.Announce(statedir.Runtime{PID: 1, NATSURL: "nats://" + mute.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	_, err = once(bus.Config{Dir: dir})
	if took := time.Since(begun); !errors.Is(err, bus.ErrUnreachable) || took > 10*patience {
		t.Errorf("Connect to a mute bus = %v after %v, want ErrUnreachable within %v", err, took, 10*patience)
	}
}
