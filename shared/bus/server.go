package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// Bounds of the embedded server.
const (
	// maxPayload is the largest message. It is above what the intake makes
	// (512 KiB) and what NATS allows by default, so that an operator's tools work.
	maxPayload = 2 * mib
	// maxStore bounds the disk: the streams' limits and the detector's
	// snapshots, with room for what the server keeps until it compacts.
	maxStore = 2 << 30
	// maxMemory bounds what consumers keep in memory.
	maxMemory = 64 * mib
	// syncInterval is how much acknowledged data a power cut may cost. The end
	// of the process, even by kill -9, costs nothing.
	syncInterval = 5 * time.Second
	// startTimeout is how long the server may take to recover its store.
	startTimeout = 30 * time.Second
)

// ServerConfig says how to embed a server.
type ServerConfig struct {
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
	dir   statedir.Dir
	admin nkeys.KeyPair
	ws    *websocketProxy
	log   *slog.Logger
	fault *atomic.Pointer[string]
}

// StartServer starts the server, waits until its store is recovered, and
// creates the streams and buckets. Its errors say what to do.
func StartServer(ctx context.Context, cfg ServerConfig) (*Server, error) {
	origin := secretOrigin()
	opts, err := serverOptions(ctx, cfg, origin)
	if err != nil {
		return nil, err
	}
	users, err := credentials(cfg.Dir)
	if err != nil {
		return nil, err
	}
	admin, err := nkeys.CreateUser() // lives as long as this process, in memory
	if err != nil {
		return nil, fmt.Errorf("make the credential of the provisioner: %w", err)
	}
	public, err := admin.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("make the credential of the provisioner: %w", err)
	}
	opts.Nkeys = slices.Concat(users, []*server.NkeyUser{{Nkey: public}})

	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("prepare the embedded NATS server: %w", err)
	}
	fatal := make(chan string, 1)
	s := &Server{ns: ns, dir: cfg.Dir, admin: admin, log: cfg.Logger, fault: &atomic.Pointer[string]{}}
	ns.SetLoggerV2(&serverLog{log: cfg.Logger.With("component", "nats"), fatal: fatal, fault: s.fault}, false, false, false)
	ns.Start()
	if err := s.ready(ctx, fatal); err != nil {
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

func serverOptions(ctx context.Context, cfg ServerConfig, origin string) (*server.Options, error) {
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

// ready waits until clients can connect and the store is recovered.
func (s *Server) ready(ctx context.Context, fatal <-chan string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case msg := <-fatal:
			return errors.New(msg)
		case <-ctx.Done():
			return fmt.Errorf("wait for it to be ready: %w", context.Cause(ctx))
		case <-tick.C:
		}
		if s.ns.ReadyForConnections(time.Millisecond) && s.ns.Healthz(nil).StatusCode == http.StatusOK {
			return nil
		}
	}
}

func (s *Server) provision(ctx context.Context) error {
	c, err := Connect(ctx, ConnConfig{Name: "tocsin provisioner", Server: s, Role: provisioner, Logger: s.log})
	if err != nil {
		return err
	}
	defer c.Close()
	return Provision(ctx, c.JS, s.log)
}

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
		return fmt.Errorf("%w: %s", ErrStore, *text)
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

// key is the key of a role on this server.
func (s *Server) key(role Role) (nkeys.KeyPair, error) {
	if role == provisioner {
		return s.admin, nil
	}
	return credential(s.dir, role)
}

// serverLog writes the server's log lines to slog. It keeps the first fatal one,
// because Start itself returns no error, and the first that says that the store
// can't be written, because publishers then only see that nobody answers.
type serverLog struct {
	log   *slog.Logger
	fatal chan<- string
	fault *atomic.Pointer[string]
}

func (l *serverLog) Noticef(f string, v ...any) { l.log.Debug(fmt.Sprintf(f, v...)) }
func (l *serverLog) Debugf(string, ...any)      {}
func (l *serverLog) Tracef(string, ...any)      {}

func (l *serverLog) Errorf(f string, v ...any) {
	l.log.Error(fmt.Sprintf(f, v...))
	if len(v) == 0 || !strings.Contains(strings.ToLower(f), "critical write error") {
		return
	}
	text := fmt.Sprint(v[len(v)-1])
	l.fault.CompareAndSwap(nil, &text)
}

func (l *serverLog) Warnf(f string, v ...any) {
	level := slog.LevelWarn
	if strings.HasPrefix(f, "Websocket not configured with TLS") {
		level = slog.LevelDebug // it is reached through our guard only, on loopback
	}
	l.log.Log(context.Background(), level, fmt.Sprintf(f, v...))
}

func (l *serverLog) Fatalf(f string, v ...any) {
	msg := fmt.Sprintf(f, v...)
	l.log.Error(msg)
	select {
	case l.fatal <- msg:
	default:
	}
}

// hostPort is the address inside a URL.
func hostPort(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%q is not a URL with a host", raw)
	}
	return u.Host, nil
}
