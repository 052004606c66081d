package bustest

import (
	"log/slog"
	"os"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// Bus is an embedded bus on a state directory, announced in its runtime.json as by
// tocsin up. Its methods are for the test's own goroutine.
type Bus struct {
	Dir statedir.Dir
	// Server and Lock are nil while the bus is stopped.
	Server *embedded.Server
	Lock   *statedir.Lock

	t   testing.TB
	cfg embedded.Config
}

// Start runs an embedded bus on a temporary state directory until the end of the test.
func Start(t testing.TB) *Bus {
	t.Helper()
	return StartWith(t, embedded.Config{Dir: OpenDir(t)})
}

// StartWith is [Start] with options of the caller: Dir must be set. Addr defaults to a
// free port.
func StartWith(t testing.TB, cfg embedded.Config) *Bus {
	t.Helper()
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	cfg.Logger = Quiet()
	b := &Bus{Dir: cfg.Dir, t: t, cfg: cfg}
	b.Start()
	t.Cleanup(b.Stop)
	return b
}

// OpenDir makes a temporary state directory.
func OpenDir(t testing.TB) statedir.Dir {
	t.Helper()
	dir, err := statedir.Open(t.TempDir())
	must(t, err)
	return dir
}

// Quiet returns a logger that discards everything.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Start runs a stopped bus again on the same directory, at another address.
func (b *Bus) Start() {
	b.t.Helper()
	var err error
	b.Lock, err = b.Dir.Lock()
	must(b.t, err)
	b.Server, err = embedded.Start(b.t.Context(), b.cfg)
	must(b.t, err)
	must(b.t, b.Lock.Announce(statedir.Runtime{PID: os.Getpid(), NATSURL: b.Server.URL(), NATSWSURL: b.Server.WSURL()}))
}

// Stop ends the bus and releases its directory. A stopped bus stays stopped.
func (b *Bus) Stop() {
	if b.Server == nil {
		return
	}
	b.Server.Close()
	b.Server = nil
	if err := b.Lock.Release(); err != nil {
		b.t.Error(err)
	}
}

// Restart stops the bus and starts it again.
func (b *Bus) Restart() {
	b.t.Helper()
	b.Stop()
	b.Start()
}

// Config returns how a role finds the bus by its directory, also after a restart.
func (b *Bus) Config(role bus.Role) bus.Config {
	return bus.Config{Name: "test " + string(role), Role: role, Dir: b.Dir, Logger: Quiet()}
}

// Connect connects a role within the process, until the end of the test or of this run
// of the bus.
func (b *Bus) Connect(role bus.Role) *bus.Session {
	b.t.Helper()
	c, err := bus.Connect(b.t.Context(), bus.Config{Name: "test " + string(role), Role: role, Server: b.Server, Logger: Quiet()})
	must(b.t, err)
	b.t.Cleanup(c.Close)
	return c
}

// Join connects a role by the state directory, and waits until the bus answers. The
// connection finds the bus again after a restart.
func (b *Bus) Join(role bus.Role) *bus.Session {
	b.t.Helper()
	c, err := bus.Connect(b.t.Context(), b.Config(role))
	must(b.t, err)
	b.t.Cleanup(c.Close)
	Eventually(b.t, "connection as "+string(role), c.Connected)
	return c
}
