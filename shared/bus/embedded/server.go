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
	// maxPayload is the largest message. It is above what the intake makes
	// (512 KiB) and what NATS allows by default, so that an operator's tools work.
	maxPayload = 2 << 20
	// maxStore bounds the disk: the streams' limits and the detector's
	// snapshots, with room for what the server keeps until it compacts.
	maxStore = 2 << 30
	// maxMemory bounds what consumers keep in memory.
	maxMemory = 64 << 20
	// syncInterval is how much acknowledged data a power cut may cost. The end
	// of the process, even by kill -9, costs nothing.
	syncInterval = 5 * time.Second
)

// Config says how to embed a server.
type Config struct {
	// Dir is where the store and the roles' credentials live. Its lock must be
	// held by the caller: JetStream has none of its own.
	Dir statedir.Dir
	// Addr is host:port for clients; port 0 picks a free one.
	Addr string
	// WSAddr is host:port of the websocket for browsers; empty turns it off.
	WSAddr string
	// WSGuard says which websocket requests may not pass, by their Host and
	// Origin. It is required with WSAddr: without it any web page could connect.
	WSGuard func(*http.Request) error
	// SyncAlways writes through to the disk before each acknowledgement, about
	// 30 times slower.
	SyncAlways bool
	Logger     *slog.Logger
}

// Server is an embedded NATS server with JetStream, provisioned and ready.
type Server struct {
	ns    *server.Server
	keys  map[bus.Role]nkeys.KeyPair
	ws    *websocketProxy
	log   *slog.Logger
	fault *atomic.Pointer[string]
}

// Start starts the server, waits until its store is recovered, and
// creates the streams and buckets. Its errors say what to do.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	origin := secretOrigin()
	opts, err := serverOptions(ctx, cfg, origin)
	if err != nil {
		return nil, err
	}
	keys, err := makeKeys(cfg.Dir, cfg.Logger)
	if err != nil {
		return nil, err
	}
	// It lives as long as this process, in memory.
	if keys[bus.RoleProvisioner], err = nkeys.CreateUser(); err != nil {
		return nil, fmt.Errorf("make the credential of the provisioner: %w", err)
	}
	public, err := publicKeys(keys)
	if err != nil {
		return nil, err
	}
	if err := letIn(opts, public); err != nil {
		return nil, err
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("prepare the embedded NATS server: %w", err)
	}
	says := &serverLog{
		log: cfg.Logger.With("component", "nats"), store: opts.StoreDir,
		fatal: make(chan string, 1), damage: make(chan damage, maxDamage), fault: &atomic.Pointer[string]{},
	}
	s := &Server{ns: ns, keys: keys, log: cfg.Logger, fault: says.fault}
	ns.SetLoggerV2(says, false, false, false)
	ns.Start() // returns when the store is read
	if err := s.ready(ctx, says); err != nil {
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
	// A busy port would only be logged by the server, and late.
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
		// By default 2 s, which ends the clients in this process before their own time.
		AuthTimeout: bus.InProcessTimeout.Seconds(),
		// A slow subscriber must not slow the intake down.
		NoFastProducerStall: true,
	}
	if cfg.WSAddr != "" {
		// Reached through websocketProxy alone. The server can't compare ports
		// by wildcard nor look at Host, so the proxy does, and then speaks with
		// an origin that nobody else knows.
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
	c, err := bus.Connect(ctx, bus.ConnConfig{Name: "tocsin provisioner", Server: s, Role: bus.RoleProvisioner, Logger: s.log})
	if err != nil {
		return err
	}
	defer c.Close()
	return bus.Provision(ctx, c, bus.Layout{}, s.log)
}

// InProcessConn makes a connection within this process.
func (s *Server) InProcessConn() (net.Conn, error) { return s.ns.InProcessConn() }

// Key returns the key of a role.
func (s *Server) Key(role bus.Role) nkeys.KeyPair { return s.keys[role] }

// URL is where clients on this machine connect, with the real port.
func (s *Server) URL() string { return "nats://" + httpguard.Reachable(s.ns.Addr()) }

// WSURL is where browsers on this machine connect, or empty.
func (s *Server) WSURL() string {
	if s.ws == nil {
		return ""
	}
	return s.ws.url
}

// Fault is nil, or wraps ErrStore and says why the store can't be written. It
// stays: the server does not try again before it is started anew.
func (s *Server) Fault() error {
	if text := s.fault.Load(); text != nil {
		return fmt.Errorf("%w: %s", bus.ErrStore, *text)
	}
	return nil
}

// Connections counts the connections whose name begins with prefix.
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

// Close shuts the server down and returns when it has stopped. Everything that
// was acknowledged is in its store.
func (s *Server) Close() {
	if s.ws != nil {
		s.ws.close()
	}
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
}
