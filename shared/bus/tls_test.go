package bus_test

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// serveTLS runs a server whose clients may have to show a certificate too.
func serveTLS(t *testing.T, files bustest.Certificates, verify bool) string {
	t.Helper()
	cfg, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: files.Cert, KeyFile: files.Key, CaFile: files.CA, Verify: verify})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, TLSConfig: cfg, TLSTimeout: 10, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("no server")
	}
	return ns.ClientURL()
}

// TestTLS: who is trusted gets in, also where the server did not ask for TLS in its
// URL; who is not is told why.
func TestTLS(t *testing.T) {
	ours, others := bustest.TLS(t), bustest.TLS(t)
	open, strict := serveTLS(t, ours, false), serveTLS(t, ours, true)
	for name, c := range map[string]struct {
		cfg bus.Config
		in  bool
	}{
		"trusted":                       {bus.Config{URL: open, CA: ours.CA}, true},
		"asked for a certificate":       {bus.Config{URL: strict, CA: ours.CA, Cert: ours.Cert, Key: ours.Key}, true},
		"nobody vouches":                {bus.Config{URL: open}, false},
		"another vouches":               {bus.Config{URL: open, CA: others.CA}, false},
		"no certificate to show":        {bus.Config{URL: strict, CA: ours.CA}, false},
		"a certificate of another":      {bus.Config{URL: strict, CA: ours.CA, Cert: others.Cert, Key: others.Key}, false},
		"a server without TLS, with CA": {bus.Config{URL: serveForeign(t), CA: ours.CA}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Name, c.cfg.Role = name, bus.RoleGateway
			conn := connect(t, c.cfg)
			if c.in {
				bustest.Eventually(t, "connection", conn.Connected)
				if state, err := conn.NC.TLSConnectionState(); err != nil || state.Version < tls.VersionTLS12 {
					t.Errorf("%v %v", state.Version, err)
				}
				if why := conn.Why(); why != nil {
					t.Errorf("connected: %v", why)
				}
				return
			}
			why := reason(t, conn)
			if !errors.Is(why, bus.ErrUntrusted) || !strings.Contains(why.Error(), "TOCSIN_NATS_CA") || conn.Connected() {
				t.Errorf("connected %v: %v", conn.Connected(), why)
			}
		})
	}
}

// TestTLSFiles: what can't be used is told at once, with the setting.
func TestTLSFiles(t *testing.T) {
	files, dir := bustest.TLS(t), t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]bus.Config{
		"TOCSIN_NATS_CA: open":  {CA: filepath.Join(dir, "missing")},
		"holds no certificate":  {CA: garbage},
		"TOCSIN_NATS_KEY: tls:": {Cert: files.Cert, Key: garbage},
		"TOCSIN_NATS_KEY: open": {Cert: files.Cert, Key: filepath.Join(dir, "missing")},
		"do not match":          {Cert: files.Cert, Key: bustest.TLS(t).Key},
	} {
		cfg.URL, cfg.Role, cfg.Logger = "tls://127.0.0.1:1", bus.RoleGateway, quiet()
		c, err := bus.Connect(t.Context(), cfg)
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "does not match", "do not match"), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
