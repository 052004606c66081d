// Package ingest is the HTTP server that accepts events, CI results and alerts from pages,
// apps and pipelines. It decodes them, removes hidden characters, masks secrets, publishes
// them to the bus, and answers with success only once JetStream has stored them. What it
// accepts is in docs/reference/http.md.
//
// It does not know what an event means: the detector raises alerts.
//
// The table of senders is in senders.go. Each has a file of its name, and a package that
// decodes its format. From there, events.go, results.go and alerts.go take over, clean.go
// masks, encode.go and bus.go publish.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/ingest/gitlab"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// DefaultAddr is where ingest listens by default.
const DefaultAddr = "127.0.0.1:7400"

// maxConns is how many connections may be open; further ones wait in the kernel's queue.
const maxConns = 2048

// Config configures [Run].
type Config struct {
	// Bus is how to connect; Run sets Name and Role.
	Bus bus.Config
	// Provision creates missing streams first, as an external bus needs.
	Provision bool
	// Layout is how those streams are replicated and placed.
	Layout bus.Layout
	// Addr is host:port to listen on; port 0 picks a free one. Empty: DefaultAddr.
	// Anything but loopback needs a Token.
	Addr string
	// Token, where it is set, is required for every write as Authorization: Bearer, and
	// beyond loopback for every read. White space alone is no token.
	Token string
	// OTLPAddr is host:port of a second listener, for OTLP only, where OpenTelemetry's
	// senders expect one. Empty: none. If another process uses the port, there is none
	// either, and the log has a warning.
	OTLPAddr string
	// GitHubWebhookSecret signs GitHub's webhooks. GitLabSigningToken signs GitLab's, and
	// GitLabSecretToken is sent with them. A webhook that one of these proves needs no
	// Token; without any, webhooks need what other writes need.
	GitHubWebhookSecret, GitLabSecretToken, GitLabSigningToken string
	// AllowedHosts and AllowedOrigins are accepted in addition to loopback, as is a
	// concrete host in Addr. See [httpguard.Policy].
	AllowedHosts, AllowedOrigins []string
	// Proxy is a trusted proxy in front. The users that it names may read, as those with
	// the Token may.
	Proxy httpguard.Proxy
	// MaxInFlight is how many bytes of bodies may be in flight at once; beyond, requests
	// are refused with 429. 0: DefaultMaxInFlight.
	MaxInFlight int64
	// Masker masks secrets. It is required.
	Masker Masker
	// Registry gets the metrics, and /metrics serves it. It may be nil.
	Registry *prometheus.Registry
	// Instance distinguishes this ingest service from others on the bus, in events about itself.
	// Empty: it is the only one.
	Instance string
	// Version is that of the build, shown in answers about health.
	Version string
	Logger  *slog.Logger
	// Ready is called once, when requests are accepted. It may be nil.
	Ready func(Listening)
	// Accepted is called after every accepted write, from many goroutines at once. It may
	// be nil.
	Accepted func()

	// exposed reports whether other machines can reach a listener.
	exposed bool
}

// Listening has the URLs of the listeners. OTLP is empty if there is none.
type Listening struct{ Ingest, OTLP string }

// Run serves until ctx ends. Then it stops accepting, finishes the requests in flight with
// their acknowledgements, closes its connection and returns nil. While the bus is
// unreachable, writes are refused and health checks fail.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	general, otlp, err := cfg.listen(ctx)
	if err != nil {
		return err
	}
	cfg.exposed = httpguard.Exposed(general.Addr(), addrOf(otlp))
	sink := newBusSink(cfg)
	h := newHandler(cfg, sink)
	h.metrics.watch(h.inFlight, sink)

	g, ctx := errgroup.WithContext(ctx)
	// The session outlives the requests in flight, which wait for acknowledgements.
	onBus, leaveBus := context.WithCancel(context.WithoutCancel(ctx))
	defer leaveBus()
	g.Go(func() error { return sink.run(onBus, h.answerHealth(sink, cfg.Version)) })
	select {
	case <-sink.opened:
	case <-ctx.Done():
		leaveBus()
		return errors.Join(g.Wait(), general.Close(), closeListener(otlp))
	}
	reporter := &reporter{sink: sink, inFlight: h.inFlight, app: ownAppOf(cfg.Instance), log: cfg.Logger, dropped: h.metrics.reportsDropped}
	g.Go(func() error { reporter.run(ctx); return nil })
	g.Go(func() error { h.refused.run(ctx, cfg.Logger); return nil })
	g.Go(func() error { defer leaveBus(); return h.serve(ctx, general, otlp) })
	listening := Listening{Ingest: urlOf(general), OTLP: urlOf(otlp)}
	cfg.Logger.Info("ingest listens", "url", listening.Ingest, "otlp", listening.OTLP)
	if cfg.Ready != nil {
		cfg.Ready(listening)
	}
	return g.Wait()
}

// listen opens the general listener and, if it is configured, the one for OTLP. If another
// process, such as a collector, uses the OTLP port, otlp is nil.
func (c Config) listen(ctx context.Context) (general, otlp net.Listener, err error) {
	listener := httpserve.Listener{Purpose: "ingest", Setting: "TOCSIN_INGEST_ADDR", Addr: c.Addr, Token: c.Token, MaxConns: maxConns}
	general, err = listener.Listen(ctx)
	if err != nil || c.OTLPAddr == "" {
		return general, nil, err
	}
	listener.Setting, listener.Addr = "TOCSIN_OTLP_ADDR", c.OTLPAddr
	otlp, err = listener.Listen(ctx)
	if errors.Is(err, syscall.EADDRINUSE) {
		c.Logger.Warn("another process uses the OTLP port, so ingest does not listen there: set OTEL_EXPORTER_OTLP_ENDPOINT to the URL of ingest",
			"taken", c.OTLPAddr, "ingest", urlOf(general))
		return general, nil, nil
	}
	if err != nil {
		return nil, nil, errors.Join(err, general.Close())
	}
	return general, otlp, nil
}

// serve answers requests on both listeners until ctx ends. otlp may be nil.
func (h *handler) serve(ctx context.Context, general, otlp net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return httpserve.Serve(ctx, general, httpserve.NewServer(h, h.log), h.log) })
	if otlp != nil {
		front := h.front(h.otlpRoutes(), "not found: this port accepts only OTLP")
		g.Go(func() error { return httpserve.Serve(ctx, otlp, httpserve.NewServer(front, h.log), h.log) })
	}
	return g.Wait()
}

// urlOf returns the URL of a listener, or "" if it is nil.
func urlOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return "http://" + httpguard.DialAddress(l.Addr())
}

func addrOf(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

func closeListener(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

// complete sets defaults, and returns an error for an invalid configuration.
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
		return c, errors.New("start ingest: no masker")
	}
	if c.GitLabSigningToken != "" {
		if _, err := gitlab.NewSigning(c.GitLabSigningToken); err != nil {
			return c, fmt.Errorf("TOCSIN_GITLAB_SIGNING_TOKEN %w", err)
		}
	}
	c.Logger = c.Logger.With("component", "ingest")
	c.Bus.Name, c.Bus.Role, c.Bus.Logger = "tocsin ingest", bus.RoleIngest, c.Logger
	for _, secret := range []*string{&c.Token, &c.GitHubWebhookSecret, &c.GitLabSecretToken, &c.GitLabSigningToken} {
		*secret = strings.TrimSpace(*secret)
	}
	return c, nil
}
