package bus_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

func TestOnlyTheServerMakesKeys(t *testing.T) {
	dir := bustest.OpenDir(t)
	c := connect(t, bus.Config{Name: "early", Role: bus.RoleGateway, Dir: dir})
	file := dir.Credential(string(bus.RoleGateway))
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a reader made %s: %v", file, err)
	}
	if why := c.Why(); why != nil {
		t.Errorf("nothing runs: %v", why)
	}
	_, stop := serve(t, dir)
	bustest.Eventually(t, "connection with a key made later", c.Connected)
	if why := c.Why(); why != nil {
		t.Errorf("connected: %v", why)
	}

	// A key that was removed under the bus: whoever is in stays in, whoever
	// comes is told, and a restart of the bus mends it.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	late := connect(t, bus.Config{Name: "late", Role: bus.RoleGateway, Dir: dir})
	why := reason(t, late)
	for _, want := range []string{file, "restart tocsin up"} {
		if !errors.Is(why, bus.ErrKey) || !strings.Contains(why.Error(), want) {
			t.Errorf("%v, want %s", why, want)
		}
	}
	bustest.Eventually(t, "check that says why", func() bool {
		err := late.Check(t.Context(), bus.StreamAlerts)
		return errors.Is(err, bus.ErrUnreachable) && errors.Is(err, bus.ErrKey)
	})
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a reader made %s: %v", file, err)
	}
	if !c.Connected() {
		t.Error("the first connection was lost")
	}
	stop()
	serve(t, dir)
	bustest.Eventually(t, "connection after the restart", late.Connected)
	bustest.Eventually(t, "connection with another key", c.Connected)
}

// reason waits for why a connection is not let in. While it tries again there
// is none.
func reason(t *testing.T, c *bus.Session) (why error) {
	t.Helper()
	bustest.Eventually(t, "reason", func() bool { why = c.Why(); return why != nil })
	return why
}

func TestAKeyThatTheBusDoesNotKnow(t *testing.T) {
	dir := bustest.OpenDir(t)
	serve(t, dir)
	other, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := other.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := dir.Credential(string(bus.RoleGateway))
	for what, content := range map[string][]byte{"another key": seed, "garbage": []byte("garbage"), "nothing": nil} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		c := connect(t, bus.Config{Name: what, Role: bus.RoleGateway, Dir: dir})
		why := reason(t, c)
		if !errors.Is(why, bus.ErrKey) || !strings.Contains(why.Error(), file) || !strings.Contains(why.Error(), "restart tocsin up") {
			t.Errorf("%s: %v", what, why)
		}
		if strings.Contains(why.Error(), string(seed)) {
			t.Errorf("%s: the secret is told", what)
		}
	}
}

// TestTheServerDoesNotNeedTheFiles: what it has read it keeps, for the
// services of its own process.
func TestTheServerDoesNotNeedTheFiles(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	if err := os.Remove(dir.Credential(string(bus.RoleDetector))); err != nil {
		t.Fatal(err)
	}
	c := connect(t, bus.Config{Name: "inside", Role: bus.RoleDetector, Server: s})
	if err := c.Check(t.Context(), bus.StreamTelemetry); err != nil {
		t.Error(err)
	}
}
