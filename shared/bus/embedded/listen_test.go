package embedded_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
)

// TestWildcardAddressesAreAnnouncedAsLoopback checks that clients can connect to the announced
// addresses.
func TestWildcardAddressesAreAnnouncedAsLoopback(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		dir := bustest.OpenDir(t)
		s, err := embedded.Start(t.Context(), embedded.Config{
			Dir: dir, Addr: addr, WSAddr: addr, Logger: bustest.Quiet(), WSGuard: func(*http.Request) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		for _, url := range []string{s.URL(), s.WSURL()} {
			if !strings.Contains(url, "://127.0.0.1:") && !strings.Contains(url, "://[::1]:") {
				t.Errorf("%s is announced as %s, want a loopback address", addr, url)
			}
			auth, err := nats.NkeyOptionFromSeed(dir.Credential(string(bus.RoleDashboard)))
			if err != nil {
				t.Fatal(err)
			}
			nc, err := nats.Connect(url, auth)
			if err != nil {
				t.Fatalf("%s: %s: %v", addr, url, err)
			}
			nc.Close()
		}
	}
}
