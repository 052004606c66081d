// Package ingest is the HTTP intake: it takes events and CI results from pages,
// apps and pipelines, refuses what is wrong in words that say what is allowed,
// cleans and masks the rest, and answers with success only once JetStream has
// acknowledged it (contract, sections 3, 7 and 8).
//
// It doesn't know what an event means: alerts are the detector's.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// DefaultAddr is where the intake listens when nothing else is said.
const DefaultAddr = "127.0.0.1:7400"

// Bounds of the listener. At maxConns, further connections wait in the kernel's
// queue until one of those ends.
const (
	maxConns      = 2048
	headerTimeout = 5 * time.Second
	// readTimeout is for the whole request; what comes later is dropped.
	readTimeout = 10 * time.Second
	// writeTimeout runs from the end of the header on, so it holds the time to
	// read the body, to wait for the bus and to answer.
	writeTimeout   = 30 * time.Second
	idleTimeout    = 60 * time.Second
	maxHeaderBytes = 32 << 10
)

// Config says where to listen, what to let in, and which bus to write to.
type Config struct {
	// Bus is how to join; Name and Role are filled in here.
	Bus bus.ConnConfig
	// Provision creates missing streams first: for an external bus, which
	// nobody else prepares.
	Provision bool
	// Addr is host:port to listen on; port 0 picks a free one. Empty means
	// DefaultAddr. Anything but loopback needs a Token.
	Addr string
	// Token, when set, must come with every write as Authorization: Bearer.
	Token string
	// AllowedHosts and AllowedOrigins may beside loopback; a concrete host in
	// Addr is added by itself. See httpguard.Policy.
	AllowedHosts, AllowedOrigins []string
	// MaxInFlight is how many bytes of bodies may be under way at once; beyond,
	// requests are shed with 429. 0 means DefaultMaxInFlight.
	MaxInFlight int64
	// Masker masks secrets. It is required.
	Masker Masker
	// Registry gets the metrics and is what /metrics shows. It may be nil.
	Registry *prometheus.Registry
	Logger   *slog.Logger
	// Ready is called once with the URL, when requests are taken. It may be nil.
	Ready func(url string)
	// Accepted is called after every accepted write, from many goroutines at
	// once. It may be nil.
	Accepted func()
}

// Run serves until ctx ends. Then it takes no more connections, lets requests
// under way finish with their acknowledgements, closes its connection and
// returns nil. A bus that is away is waited for, and told to senders meanwhile.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Addr)
	if err != nil {
		return fmt.Errorf("listen for the intake: %w: free the port or set TOCSIN_INGEST_ADDR", err)
	}
	if t, ok := l.Addr().(*net.TCPAddr); ok && cfg.Token == "" && !t.IP.IsLoopback() {
		// A name below localhost is whatever the resolver makes of it.
		return errors.Join(needsToken(cfg.Addr), l.Close())
	}
	sink, err := openSink(ctx, cfg)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer sink.close()
	h := newHandler(cfg, sink)
	h.metrics.watch(h.load, sink)
	reporter := &reporter{sink: sink, load: h.load, log: cfg.Logger, dropped: h.metrics.reportsDropped}

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return sink.run(ctx) })
	g.Go(func() error { reporter.run(ctx); return nil })
	g.Go(func() error { return serve(ctx, netutil.LimitListener(l, maxConns), h, cfg.Logger) })
	url := listenURL(l.Addr())
	cfg.Logger.Info("the intake listens", "url", url)
	if cfg.Ready != nil {
		cfg.Ready(url)
	}
	return g.Wait()
}

func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	err := service.ServeHTTP(ctx, l, newServer(h, log))
	if errors.Is(err, context.DeadlineExceeded) {
		log.Warn("requests that took too long were cut off", "error", err)
		return nil
	}
	return err
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		// OPTIONS * is answered by the handler, which looks at Host and Origin.
		DisableGeneralOptionsHandler: true,
	}
}

// complete fills in the defaults and says what can't be.
func (c Config) complete() (Config, error) {
	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = DefaultMaxInFlight
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Masker == nil {
		return c, errors.New("start the intake: no masker")
	}
	c.Logger = c.Logger.With("component", "ingest")
	c.Bus.Name, c.Bus.Role, c.Bus.Logger = "tocsin ingest", bus.RoleIngest, c.Logger
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return c, service.Usagef("TOCSIN_INGEST_ADDR %q must be host:port, such as %s", c.Addr, DefaultAddr)
	}
	if httpguard.Loopback(host) {
		return c, nil
	}
	if c.Token == "" {
		return c, needsToken(c.Addr)
	}
	ip := net.ParseIP(host)
	if host != "" && (ip == nil || !ip.IsUnspecified()) {
		c.AllowedHosts = append(slices.Clone(c.AllowedHosts), bracketed(host))
	}
	return c, nil
}

func needsToken(addr string) error {
	return service.Usagef("TOCSIN_INGEST_ADDR %s can be reached from other machines: set TOCSIN_TOKEN, or listen on 127.0.0.1", addr)
}

func bracketed(host string) string {
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return "[" + host + "]"
	}
	return host
}

// listenURL is how to reach a listener from this machine.
func listenURL(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok && t.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d", t.Port)
	}
	return "http://" + a.String()
}
