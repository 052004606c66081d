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
		t.Fatalf("Stat(%s) = %v, want ErrNotExist: a reader creates no key", file, err)
	}
	if why := c.Why(); why != nil {
		t.Errorf("Why without a bus = %v, want nil", why)
	}
	_, stop := serve(t, dir)
	bustest.Eventually(t, "connection with a key created later", c.Connected)
	if why := c.Why(); why != nil {
		t.Errorf("Why while connected = %v, want nil", why)
	}

	// When a key is removed while the bus runs, connected clients stay connected, new ones get
	// an error with the fix, and a restart of the bus creates the key again.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	late := connect(t, bus.Config{Name: "late", Role: bus.RoleGateway, Dir: dir})
	checkKeyError(t, "removed", reason(t, late), file)
	bustest.Eventually(t, "check that returns the reason", func() bool {
		err := late.Check(t.Context(), bus.StreamAlerts)
		return errors.Is(err, bus.ErrUnreachable) && errors.Is(err, bus.ErrKey)
	})
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat(%s) = %v, want ErrNotExist: a reader creates no key", file, err)
	}
	if !c.Connected() {
		t.Error("the first client's Connected = false, want true")
	}
	stop()
	serve(t, dir)
	bustest.Eventually(t, "connection after the restart", late.Connected)
	bustest.Eventually(t, "connection with another key", c.Connected)
}

// checkKeyError fails the test unless why names the key's file and the fix.
func checkKeyError(t *testing.T, key string, why error, file string) {
	t.Helper()
	for _, want := range []string{file, "restart tocsin up"} {
		if !errors.Is(why, bus.ErrKey) || !strings.Contains(why.Error(), want) {
			t.Errorf("%s key: Why = %v, want ErrKey with %q", key, why, want)
		}
	}
}

// reason waits for the reason why a connection is refused. There is none while the next
// attempt is under way.
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
	for name, content := range map[string][]byte{"another": seed, "garbled": []byte("garbage"), "empty": nil} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		why := reason(t, connect(t, bus.Config{Name: name, Role: bus.RoleGateway, Dir: dir}))
		checkKeyError(t, name, why, file)
		if strings.Contains(why.Error(), string(seed)) {
			t.Errorf("%s key: Why = %v, want it without the secret", name, why)
		}
	}
}

// TestTheServerDoesNotNeedTheFiles checks that the server keeps the keys that it has read, for
// the services of its own process.
func TestTheServerDoesNotNeedTheFiles(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	if err := os.Remove(dir.Credential(string(bus.RoleDetector))); err != nil {
		t.Fatal(err)
	}
	c := connect(t, bus.Config{Name: "inside", Role: bus.RoleDetector, Server: s})
	if err := c.Check(t.Context(), bus.StreamTelemetry); err != nil {
		t.Errorf("Check = %v, want nil", err)
	}
}
