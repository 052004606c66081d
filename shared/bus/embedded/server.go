package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// Bounds of the embedded server.
const (
	// maxPayload is the largest message. Ingest publishes at most 512 KiB and the
	// default of NATS is 1 MiB, so operators' tools work.
	maxPayload = 2 << 20
	// maxStore bounds the disk: the limits of the streams and the detector's snapshots, with
	// room for deleted messages until the server compacts.
	maxStore = 2 << 30
	// maxMemory bounds the memory of consumers.
	maxMemory = 64 << 20
	// syncInterval is how much acknowledged data a power cut may cost. The end of the
	// process, even by kill -9, costs nothing.
	syncInterval = 5 * time.Second
)

// Config configures an embedded server.
type Config struct {
	// Dir holds the store and the roles' credentials. The caller must hold its lock:
	// JetStream has none of its own.
	Dir statedir.Dir
	// Addr is host:port for clients; port 0 picks a free one.
	Addr string
	// WSAddr is host:port of the websocket for browsers; empty turns it off.
	WSAddr string
	// WSGuard returns why a websocket request is refused, by its Host and Origin, or nil. It
	// is required with WSAddr: without it any web page could connect.
	WSGuard func(*http.Request) error
	// SyncAlways syncs to the disk before each acknowledgement, which is about 30 times
	// slower.
	SyncAlways bool
	Logger     *slog.Logger
}

// Server is an embedded NATS server with JetStream, provisioned and ready. It implements
// [bus.InProcess].
type Server struct {
	ns    *server.Server
	keys  map[bus.Role]nkeys.KeyPair
	ws    *websocketProxy
	log   *slog.Logger
	fault *atomic.Pointer[string]
}

// Start starts the server, waits until its store is recovered, and
// creates the streams and buckets. Its errors name the fix.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	origin := secretOrigin()
	opts, err := serverOptions(ctx, cfg, origin)
	if err != nil {
		return nil, err
	}
	keys, err := roleKeys(cfg.Dir, cfg.Logger)
	if err != nil {
		return nil, err
	}
	// The provisioner's key lives as long as this process, in memory.
	if keys[bus.RoleProvisioner], err = nkeys.CreateUser(); err != nil {
		return nil, fmt.Errorf("create the credential of the provisioner: %w", err)
	}
	public, err := publicKeys(keys)
	if err != nil {
		return nil, err
	}
	if err := addRoles(opts, public); err != nil {
		return nil, err
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("prepare the embedded NATS server: %w", err)
	}
	logs := &serverLog{
		log: cfg.Logger.With("component", "nats"), store: opts.StoreDir,
		fatal: make(chan string, 1), damage: make(chan damage, maxDamage), fault: &atomic.Pointer[string]{},
	}
	s := &Server{ns: ns, keys: keys, log: cfg.Logger, fault: logs.fault}
	ns.SetLoggerV2(logs, false, false, false)
	ns.Start() // returns when the store was read
	if err := s.awaitReady(ctx, logs); err != nil {
		s.Close()
		return nil, fmt.Errorf("start the embedded NATS server on %s: %w", cfg.Addr, err)
	}
	if err := s.provision(ctx); err != nil {
		s.Close()
		return nil, err
	}
	if cfg.WSAddr != "" {
		if s.ws, err = startWebsocket(ctx, cfg, ns.WebsocketURL(), origin, defaultWebsocketBounds()); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

func serverOptions(ctx context.Context, cfg Config, origin string) (*server.Options, error) {
	host, port, err := splitAddr(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("TOCSIN_NATS_ADDR: %w", err)
	}
	// The server would only log a port that is in use, and late.
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen for NATS: %w: free the port or set TOCSIN_NATS_ADDR", err)
	}
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("listen for NATS: %w", err)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	opts := &server.Options{
		ServerName: "tocsin", Host: host, Port: port,
		NoSigs: true, NoSystemAccount: false,
		JetStream: true, StoreDir: cfg.Dir.JetStream(),
		JetStreamMaxStore: maxStore, JetStreamMaxMemory: maxMemory,
		SyncInterval: syncInterval, SyncAlways: cfg.SyncAlways,
		MaxPayload: maxPayload,
		// The default of 2 s would end clients in this process before their own timeout.
		AuthTimeout: bus.InProcessTimeout.Seconds(),
		// A slow subscriber must not slow ingest down.
		NoFastProducerStall: true,
	}
	if cfg.WSAddr != "" {
		// It is reached through websocketProxy alone. The server can neither match ports by
		// wildcard nor check the Host header, so the proxy does, and then connects with an
		// origin that no other process knows.
		opts.Websocket = server.WebsocketOpts{
			Host: "127.0.0.1", Port: server.RANDOM_PORT, NoTLS: true,
			AllowedOrigins: []string{origin},
		}
	}
	return opts, nil
}

func splitAddr(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not host:port: %w", addr, err)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%q: the port must be between 0 and 65535", addr)
	}
	return host, port, nil
}

func (s *Server) provision(ctx context.Context) error {
	c, err := bus.Connect(ctx, bus.Config{Name: "tocsin provisioner", Server: s, Role: bus.RoleProvisioner, Logger: s.log})
	if err != nil {
		return err
	}
	defer c.Close()
	return bus.Provision(ctx, c, bus.Layout{}, s.log)
}

// InProcessConn opens a connection within this process.
func (s *Server) InProcessConn() (net.Conn, error) { return s.ns.InProcessConn() }

// Key returns the key of a role.
func (s *Server) Key(role bus.Role) nkeys.KeyPair { return s.keys[role] }

// URL returns the address for clients on this machine, with the real port.
func (s *Server) URL() string { return "nats://" + httpguard.DialAddress(s.ns.Addr()) }

// WSURL returns the address for browsers on this machine, or nothing.
func (s *Server) WSURL() string {
	if s.ws == nil {
		return ""
	}
	return s.ws.url
}

// Fault returns an error that wraps [bus.ErrStore] when the store can't be written, or nil.
// It stays until the server is restarted, which does not retry before.
func (s *Server) Fault() error {
	if text := s.fault.Load(); text != nil {
		return fmt.Errorf("%w: %s", bus.ErrStore, *text)
	}
	return nil
}

// Connections counts the connections whose name begins with a prefix.
func (s *Server) Connections(prefix string) int {
	list, err := s.ns.Connz(&server.ConnzOptions{Limit: 10_000})
	if err != nil {
		return 0
	}
	n := 0
	for _, c := range list.Conns {
		if strings.HasPrefix(c.Name, prefix) {
			n++
		}
	}
	return n
}

// Close shuts the server down and returns when it has stopped. All acknowledged messages are
// in its store.
func (s *Server) Close() {
	if s.ws != nil {
		s.ws.close()
	}
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
}
