// Package bustest runs buses for tests, on loopback and in this process: an embedded bus on a
// state directory ([Start]), and one NATS server or a cluster with the roles' keys
// ([Cluster]). It also has what tests of services share: [Eventually], a TCP fault
// [Proxy], certificates, and a check of what a role may do on the wire ([Wire]).
package bustest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// patience is how long a test waits for anything. An election after the loss of a leader alone
// takes up to 9 s.
const patience = 60 * time.Second

// Rig is an external bus. Its methods are for the test's own goroutine, but for URL, Creds and
// Config.
type Rig struct {
	// CA, when set, is the file with the CA of the servers' certificates.
	CA string
	// CredsOf, when set, returns the file with a role's credentials.
	CredsOf func(bus.Role) string

	t     testing.TB
	opts  []*server.Options
	nodes []*server.Server // nil where stopped
	urls  []string
	creds string // a directory
}

// Cluster runs n servers as one cluster, or a single server where n is 1, and returns when all
// are ready. They end with the test.
func Cluster(t testing.TB, n int) *Rig {
	t.Helper()
	creds := t.TempDir()
	accounts := bus.ServerAccounts(keys(t, creds))
	opts := make([]*server.Options, n)
	for i := range opts {
		opts[i] = &server.Options{
			ServerName: fmt.Sprintf("node%d", i+1), Host: "127.0.0.1", Port: server.RANDOM_PORT,
			JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 4 << 30, JetStreamMaxMemory: 256 << 20,
			MaxPayload: 2 << 20, NoFastProducerStall: true, NoSigs: true, NoLog: true,
		}
		must(t, opts[i].ProcessConfigString(accounts))
		if n > 1 {
			opts[i].Cluster = server.ClusterOpts{Name: "bustest", Host: "127.0.0.1", Port: server.RANDOM_PORT}
		}
	}
	return Serve(t, creds, opts...)
}

// Serve runs servers with the caller's options, such as those of a configuration file. A port
// of -1 is chosen once and kept over restarts; servers of a cluster get the addresses of the
// others. The directory creds has the seed of each role as ROLE.nk; it may be empty where
// CredsOf is set afterwards.
func Serve(t testing.TB, creds string, opts ...*server.Options) *Rig {
	t.Helper()
	r := &Rig{t: t, opts: opts, nodes: make([]*server.Server, len(opts)), creds: creds}
	t.Cleanup(func() {
		for _, ns := range r.nodes { // all at once: the last would wait for a quorum
			if ns != nil {
				ns.Shutdown()
			}
		}
		for _, ns := range r.nodes {
			if ns != nil {
				ns.WaitForShutdown()
			}
		}
	})
	pickPorts(t, opts)
	var routes []*url.URL
	for _, o := range opts {
		scheme := "nats"
		if o.TLSConfig != nil {
			scheme = "tls"
		}
		r.urls = append(r.urls, fmt.Sprintf("%s://127.0.0.1:%d", scheme, o.Port))
		if o.Cluster.Name != "" {
			route := &url.URL{Scheme: "nats-route", Host: fmt.Sprintf("127.0.0.1:%d", o.Cluster.Port)}
			if o.Cluster.Username != "" {
				route.User = url.UserPassword(o.Cluster.Username, o.Cluster.Password)
			}
			routes = append(routes, route)
		}
	}
	for i, o := range opts {
		if o.Cluster.Name != "" { // a server alone would refuse to begin a cluster
			o.Routes = others(routes, i)
		}
		r.run(i)
	}
	r.Ready()
	return r
}

// others returns all routes but that of server i.
func others(routes []*url.URL, i int) []*url.URL {
	var out []*url.URL
	for j, u := range routes {
		if j != i {
			out = append(out, u)
		}
	}
	return out
}

// keys creates a key for each role, writes its seed to dir, and returns the public keys.
func keys(t testing.TB, dir string) func(bus.Role) string {
	t.Helper()
	public := map[bus.Role]string{}
	for _, role := range append(bus.Roles(), bus.RoleProvisioner) {
		seed, key, err := bus.NewKey()
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, string(role)+".nk"), append(seed, '\n'), 0o600))
		public[role] = key
	}
	return func(role bus.Role) string { return public[role] }
}

// URL returns the addresses of all servers, comma-separated.
func (r *Rig) URL() string { return strings.Join(r.urls, ",") }

// URLOf returns the address of one server.
func (r *Rig) URLOf(i int) string { return r.urls[i] }

// WSURLOf returns the address of one server's websocket.
func (r *Rig) WSURLOf(i int) string { return r.nodes[i].WebsocketURL() }

// Len returns the number of servers.
func (r *Rig) Len() int { return len(r.opts) }

// Creds returns the file with a role's key.
func (r *Rig) Creds(role bus.Role) string {
	if r.CredsOf != nil {
		return r.CredsOf(role)
	}
	return filepath.Join(r.creds, string(role)+".nk")
}

// TLSConfig returns a config that trusts the servers, or nil where they have no TLS.
func (r *Rig) TLSConfig() *tls.Config {
	r.t.Helper()
	if r.CA == "" {
		return nil
	}
	pem, err := os.ReadFile(r.CA)
	must(r.t, err)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		r.t.Fatalf("no certificate in %s", r.CA)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// TLSOptions returns the options for Dial to trust the servers.
func (r *Rig) TLSOptions() []nats.Option {
	if cfg := r.TLSConfig(); cfg != nil {
		return []nats.Option{nats.Secure(cfg)}
	}
	return nil
}

// Config returns how a role connects to the bus. Name is left out.
func (r *Rig) Config(role bus.Role) bus.Config {
	return bus.Config{Role: role, URL: r.URL(), Creds: r.Creds(role), CA: r.CA, Logger: slog.New(slog.DiscardHandler)}
}

// Connect opens a session as a role, and returns once it is connected. It ends with the test.
func (r *Rig) Connect(role bus.Role) *bus.Session {
	r.t.Helper()
	cfg := r.Config(role)
	cfg.Name = "test " + string(role)
	c, err := bus.Connect(r.t.Context(), cfg)
	must(r.t, err)
	r.t.Cleanup(c.Close)
	Eventually(r.t, "connection as "+string(role), c.Connected)
	return c
}

// Provision creates the streams as tocsin provision does. It tries again while the servers of
// a cluster are electing leaders.
func (r *Rig) Provision(layout bus.Layout) {
	r.t.Helper()
	c := r.Connect(bus.RoleProvisioner)
	defer c.Close()
	var err error
	Eventually(r.t, "provisioned bus", func() bool {
		if err = bus.Provision(r.t.Context(), c, layout, slog.New(slog.DiscardHandler)); err != nil {
			r.t.Logf("provision the bus: %v", err)
		}
		return err == nil || errors.Is(err, bus.ErrIncompatible)
	})
	must(r.t, err)
	r.Ready()
}

// Stop ends server i as SIGTERM does, and returns when it has stopped.
func (r *Rig) Stop(i int) {
	r.t.Helper()
	r.nodes[i].Shutdown()
	r.nodes[i].WaitForShutdown()
	r.nodes[i] = nil
}

// Start runs server i again, at its address and with its store. Use [Rig.Ready] to wait until
// it has caught up.
func (r *Rig) Start(i int) {
	r.t.Helper()
	for _, p := range []int{r.opts[i].Port, r.opts[i].Cluster.Port} {
		Eventually(r.t, fmt.Sprintf("free port %d", p), func() bool { return free(p) })
	}
	r.run(i)
}

// Restart stops server i, starts it again and waits until all are ready.
func (r *Rig) Restart(i int) {
	r.t.Helper()
	r.Stop(i)
	r.Start(i)
	r.Ready()
}

// Ready waits until each running server is healthy: it knows the leader of the cluster and has
// caught up with all its streams and consumers.
func (r *Rig) Ready() {
	r.t.Helper()
	Eventually(r.t, "healthy servers", func() bool {
		led := len(r.opts) == 1
		for _, ns := range r.nodes {
			if ns == nil {
				continue
			}
			if ns.Healthz(nil).StatusCode != http.StatusOK {
				return false
			}
			led = led || ns.JetStreamIsLeader()
		}
		return led
	})
}

// Leader returns the index of the server that leads a stream of the services' account, or -1.
func (r *Rig) Leader(stream string) int {
	for i, ns := range r.nodes {
		if ns != nil && ns.JetStreamIsStreamLeader(bus.AccountServices, stream) {
			return i
		}
	}
	return -1
}

// Node returns server i, or nil while it is stopped.
func (r *Rig) Node(i int) *server.Server { return r.nodes[i] }

func (r *Rig) run(i int) {
	r.t.Helper()
	ns, err := server.NewServer(r.opts[i].Clone())
	must(r.t, err)
	ns.Start()
	r.nodes[i] = ns
	if !ns.ReadyForConnections(patience) {
		r.t.Fatalf("server %d accepts no connections within %s", i, patience)
	}
}

// free reports whether a port can be listened on; 0 needs none.
func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // it does not wait
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// pickPorts replaces ports of -1 by free ones. All are held until the last is chosen, so that
// no two are the same.
func pickPorts(t testing.TB, opts []*server.Options) {
	t.Helper()
	var held []net.Listener
	defer func() {
		for _, l := range held {
			must(t, l.Close())
		}
	}()
	for _, o := range opts {
		for _, p := range []*int{&o.Port, &o.Cluster.Port, &o.Websocket.Port, &o.HTTPPort} {
			if *p == server.RANDOM_PORT {
				l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
				must(t, err)
				held = append(held, l)
				*p = l.Addr().(*net.TCPAddr).Port
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
