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

// serveTLS runs a server with TLS. With verify, clients need a certificate, too.
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
		t.Fatal("timed out waiting for the server")
	}
	return ns.ClientURL()
}

// TestTLS checks that sides that trust each other connect, also where the URL does not ask for
// TLS, and that others get the reason.
func TestTLS(t *testing.T) {
	t.Parallel()
	ours, others := bustest.TLS(t), bustest.TLS(t)
	open, strict := serveTLS(t, ours, false), serveTLS(t, ours, true)
	for name, tt := range map[string]struct {
		cfg       bus.Config
		connected bool
	}{
		"a trusted server":              {bus.Config{URL: open, CA: ours.CA}, true},
		"both trusted":                  {bus.Config{URL: strict, CA: ours.CA, Cert: ours.Cert, Key: ours.Key}, true},
		"an unknown CA":                 {bus.Config{URL: open}, false},
		"another CA":                    {bus.Config{URL: open, CA: others.CA}, false},
		"no client certificate":         {bus.Config{URL: strict, CA: ours.CA}, false},
		"another client certificate":    {bus.Config{URL: strict, CA: ours.CA, Cert: others.Cert, Key: others.Key}, false},
		"a server without TLS, with CA": {bus.Config{URL: serveForeign(t), CA: ours.CA}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.cfg.Name, tt.cfg.Role = name, bus.RoleGateway
			conn := connect(t, tt.cfg)
			if tt.connected {
				bustest.Eventually(t, "connection", conn.Connected)
				if state, err := conn.NC.TLSConnectionState(); err != nil || state.Version < tls.VersionTLS12 {
					t.Errorf("TLS version = %s, %v, want at least 1.2", tls.VersionName(state.Version), err)
				}
				if why := conn.Why(); why != nil {
					t.Errorf("Why while connected = %v, want nil", why)
				}
				return
			}
			why := reason(t, conn)
			if !errors.Is(why, bus.ErrUntrusted) || !strings.Contains(why.Error(), "TOCSIN_NATS_CA") || conn.Connected() {
				t.Errorf("Connected = %t, Why = %v, want false and ErrUntrusted with TOCSIN_NATS_CA", conn.Connected(), why)
			}
		})
	}
}

// TestTLSFiles checks that files that can't be used are refused at once, with the setting.
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
			t.Errorf("Connect with CA %q, Cert %q, Key %q = %v, want %q in the error", cfg.CA, cfg.Cert, cfg.Key, err, want)
		}
	}
}
