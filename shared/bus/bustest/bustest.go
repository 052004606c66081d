// Package bustest runs NATS servers for tests: one, or a cluster in this process,
// on loopback, with the roles' keys and stores that outlive a server's restart.
//
// It knows nothing of streams: Provision makes them as tocsin provision does.
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

// patience is how long anything may take that a test waits for. An election after
// the loss of a leader alone takes up to 9 s.
const patience = 60 * time.Second

// Rig is a bus for tests. Its methods are for the test's own goroutine, but for
// URL, Creds and Config, which don't change.
type Rig struct {
	// CA, where it is set, vouches for the servers' certificates.
	CA string
	// CredsOf, where it is set, is where a role's credentials are.
	CredsOf func(bus.Role) string

	t     testing.TB
	opts  []*server.Options
	nodes []*server.Server // nil where stopped
	urls  []string
	creds string // a directory
}

// Cluster runs n servers as one cluster, or for n 1 a single server, and returns
// when all are ready. They end with the test.
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

// Serve runs servers with options of the caller's own, such as those of a
// configuration file. A port of -1 is picked once, and kept over restarts; servers
// that have a cluster are told the addresses of the others. The directory creds
// holds the seed of each role as ROLE.nk; it may be empty where CredsOf is then set.
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

// others are all routes but that of server i.
func others(routes []*url.URL, i int) []*url.URL {
	var out []*url.URL
	for j, u := range routes {
		if j != i {
			out = append(out, u)
		}
	}
	return out
}

// keys makes a key for each role, writes its seed to dir, and gives what is public.
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

// URL names all servers, comma-separated.
func (r *Rig) URL() string { return strings.Join(r.urls, ",") }

// URLOf names one server.
func (r *Rig) URLOf(i int) string { return r.urls[i] }

// WSURLOf names one server's websocket.
func (r *Rig) WSURLOf(i int) string { return r.nodes[i].WebsocketURL() }

// Len is how many servers there are.
func (r *Rig) Len() int { return len(r.opts) }

// Creds is the file with a role's key.
func (r *Rig) Creds(role bus.Role) string {
	if r.CredsOf != nil {
		return r.CredsOf(role)
	}
	return filepath.Join(r.creds, string(role)+".nk")
}

// TLSConfig trusts the servers, or is nil where they have no TLS.
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

// TLSOptions are what Dial needs to trust the servers.
func (r *Rig) TLSOptions() []nats.Option {
	if cfg := r.TLSConfig(); cfg != nil {
		return []nats.Option{nats.Secure(cfg)}
	}
	return nil
}

// Config is how a role joins the bus. Name is left out.
func (r *Rig) Config(role bus.Role) bus.ConnConfig {
	return bus.ConnConfig{Role: role, URL: r.URL(), Creds: r.Creds(role), CA: r.CA, Logger: slog.New(slog.DiscardHandler)}
}

// Connect joins as a role, and returns once the connection is there. It ends with
// the test.
func (r *Rig) Connect(role bus.Role) *bus.Conn {
	r.t.Helper()
	cfg := r.Config(role)
	cfg.Name = "test " + string(role)
	c, err := bus.Connect(r.t.Context(), cfg)
	must(r.t, err)
	r.t.Cleanup(c.Close)
	Eventually(r.t, "connection as "+string(role), c.Connected)
	return c
}

// Provision prepares the bus as tocsin provision does, which tries again while the
// servers of a cluster are busy with each other.
func (r *Rig) Provision(layout bus.Layout) {
	r.t.Helper()
	c := r.Connect(bus.RoleProvisioner)
	defer c.Close()
	var err error
	Eventually(r.t, "prepared bus", func() bool {
		if err = bus.Provision(r.t.Context(), c, layout, slog.New(slog.DiscardHandler)); err != nil {
			r.t.Logf("prepare the bus: %v", err)
		}
		return err == nil || errors.Is(err, bus.ErrIncompatible)
	})
	must(r.t, err)
	r.Ready()
}

// Stop ends server i as SIGTERM does, and returns when it has ended.
func (r *Rig) Stop(i int) {
	r.t.Helper()
	r.nodes[i].Shutdown()
	r.nodes[i].WaitForShutdown()
	r.nodes[i] = nil
}

// Start runs server i again, at its address and with its store. Use Ready to wait
// until it has what the others have.
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

// Ready waits until each server that runs is well: it knows the cluster's leader
// and has caught up with all streams and consumers that it holds.
func (r *Rig) Ready() {
	r.t.Helper()
	Eventually(r.t, "well servers", func() bool {
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

// Leader is which server leads a stream of the services' account, or -1 for none.
func (r *Rig) Leader(stream string) int {
	for i, ns := range r.nodes {
		if ns != nil && ns.JetStreamIsStreamLeader(bus.AccountServices, stream) {
			return i
		}
	}
	return -1
}

// Node is server i, or nil where it is stopped.
func (r *Rig) Node(i int) *server.Server { return r.nodes[i] }

func (r *Rig) run(i int) {
	r.t.Helper()
	ns, err := server.NewServer(r.opts[i].Clone())
	must(r.t, err)
	ns.Start()
	r.nodes[i] = ns
	if !ns.ReadyForConnections(patience) {
		r.t.Fatalf("server %d takes no connections within %s", i, patience)
	}
}

// free says whether a port can be listened on; 0 needs none.
func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // it does not wait
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// pickPorts picks free ports in place of -1. All are held until the last is picked,
// so that no two are the same.
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
