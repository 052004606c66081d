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
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/ingest/gitlab"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// DefaultAddr is where the intake listens when nothing else is said.
const DefaultAddr = "127.0.0.1:7400"

// maxConns is how many connections may be open; further ones wait in the kernel's queue.
const maxConns = 2048

// Config says where to listen, what to let in, and which bus to write to.
type Config struct {
	// Bus is how to join; Name and Role are filled in here.
	Bus bus.ConnConfig
	// Provision creates missing streams first: for an external bus, which
	// nobody else prepares.
	Provision bool
	// Layout is how those lie on its servers.
	Layout bus.Layout
	// Addr is host:port to listen on; port 0 picks a free one. Empty means
	// DefaultAddr. Anything but loopback needs a Token.
	Addr string
	// Token, when set, must come with every write as Authorization: Bearer, and beyond
	// loopback with every read. One of white space is none.
	Token string
	// OTLPAddr is host:port of a second listener, where OpenTelemetry's senders
	// look by default. It takes OTLP alone. Empty means none; where the port is
	// taken there is none either, and the log says so.
	OTLPAddr string
	// GitHubWebhookSecret signs GitHub's webhooks. GitLabSigningToken signs
	// GitLab's, and GitLabSecretToken comes with them. What proves itself by one
	// of these needs no Token; without any, webhooks are as other writes.
	GitHubWebhookSecret, GitLabSecretToken, GitLabSigningToken string
	// AllowedHosts and AllowedOrigins may beside loopback; a concrete host in
	// Addr is added by itself. See httpguard.Policy.
	AllowedHosts, AllowedOrigins []string
	// Proxy is one in front whose users may read as those with the Token.
	Proxy httpguard.Proxy
	// MaxInFlight is how many bytes of bodies may be under way at once; beyond,
	// requests are shed with 429. 0 means DefaultMaxInFlight.
	MaxInFlight int64
	// Masker masks secrets. It is required.
	Masker Masker
	// Registry gets the metrics and is what /metrics shows. It may be nil.
	Registry *prometheus.Registry
	// Instance tells this intake from others on its bus, for what it tells of itself.
	// Empty: it is the only one.
	Instance string
	// Version is that of the build, for who asks how the intake is.
	Version string
	Logger  *slog.Logger
	// Ready is called once, when requests are taken. It may be nil.
	Ready func(Listening)
	// Accepted is called after every accepted write, from many goroutines at
	// once. It may be nil.
	Accepted func()

	// beyond reports whether other machines can reach a listener.
	beyond bool
}

// Listening is the URLs of what listens; that of something that doesn't is empty.
type Listening struct{ Intake, OTLP string }

// Run serves until ctx ends. Then it takes no more connections, lets requests
// under way finish with their acknowledgements, closes its connection and
// returns nil. A bus that is away is waited for, and told to senders meanwhile.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	intake, otlp, err := cfg.listen(ctx)
	if err != nil {
		return err
	}
	sink, err := openSink(ctx, cfg)
	if err != nil {
		return errors.Join(err, intake.Close(), otlp.Close())
	}
	defer sink.close()
	cfg.beyond = httpguard.Beyond(intake.at(), otlp.at())
	h := newHandler(cfg, sink)
	h.metrics.watch(h.load, sink)
	reporter := &reporter{sink: sink, load: h.load, app: appOf(cfg.Instance), log: cfg.Logger, dropped: h.metrics.reportsDropped}

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return sink.run(ctx) })
	g.Go(func() error { reporter.run(ctx); return nil })
	g.Go(func() error { h.attend(ctx, sink, cfg.Version); return nil })
	g.Go(func() error { h.origins.run(ctx, cfg.Logger); return nil })
	g.Go(func() error {
		return httpserve.Serve(ctx, intake.Listener, httpserve.NewServer(h, cfg.Logger), cfg.Logger)
	})
	if otlp.Listener != nil {
		g.Go(func() error {
			return httpserve.Serve(ctx, otlp.Listener, httpserve.NewServer(h.otlpAlone(), cfg.Logger), cfg.Logger)
		})
	}
	at := Listening{Intake: intake.url(), OTLP: otlp.url()}
	cfg.Logger.Info("the intake listens", "url", at.Intake, "otlp", at.OTLP)
	if cfg.Ready != nil {
		cfg.Ready(at)
	}
	return g.Wait()
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
