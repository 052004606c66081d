// Package investigator investigates alerts: an alert is submitted as a session, a chain of agents
// works on it with MCP tools, and the conclusion is stored.
//
// The packages below it know what a session is (session), how it is stored (journal), executed
// (worker) and configured (config). This package composes them: Run keeps a connection to the
// bus, serves the HTTP API, and applies changes of the configuration.
package investigator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/masking"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox"
	"github.com/tocsin-bus/tocsin/services/investigator/worker"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/lease"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// DefaultAddr is where the investigator listens by default.
const DefaultAddr = "127.0.0.1:7490"

// setting is the environment variable of the address.
const setting = "TOCSIN_INVESTIGATOR_ADDR"

// maxConns is the maximum number of open connections; more wait in the kernel's queue.
const maxConns = 1024

// sessionPause is the pause between two connections to the bus.
const sessionPause = 500 * time.Millisecond

// Config configures an investigator.
type Config struct {
	// Bus is how to connect. Run sets Name and Role.
	Bus bus.Config
	// Provision creates missing streams first, in the Layout. It is for an external bus.
	Provision bool
	Layout    bus.Layout
	// File is the configuration file. Hangup, which may be nil, has it loaded again, as a change
	// of it does.
	File   string
	Hangup <-chan os.Signal
	// LookupEnv returns environment variables for the file. Nil means [os.LookupEnv].
	LookupEnv func(string) (string, bool)
	// Addr is host:port to listen on; port 0 picks a free port. Anything but loopback needs a
	// Token. Empty means DefaultAddr.
	Addr string
	// Token, when set, is required for every write, and beyond loopback for every read.
	Token string
	// AllowedHosts are accepted as Host beside loopback and a host in Addr.
	AllowedHosts []string
	// Proxies sign people in, who then need no Token.
	Proxies Proxies
	// DashboardURL is the address of the dashboard in links to sessions, where the File has none.
	// Empty: the default of the file.
	DashboardURL string
	// Registry gets the metrics, and /metrics serves it. It may be nil.
	Registry *prometheus.Registry
	Logger   *slog.Logger
	Version  string
	// Ready is called once with the URL, when requests are accepted. It may be nil.
	Ready func(url string)
	// Monitor shows what the investigator does. It may be nil.
	Monitor *Monitor
}

// Monitor shows from outside what an investigator does. It is safe for concurrent use.
type Monitor struct{ backend atomic.Pointer[backend] }

// OpenSessions returns how many sessions wait or run, in all processes; 0 without a connection to the
// bus.
func (m *Monitor) OpenSessions() int {
	b := m.backend.Load()
	if b == nil {
		return 0
	}
	return b.index.countOpen()
}

// process is what lives as long as Run.
type process struct {
	Config
	log      *slog.Logger
	identity presence.Config
	redact   *redact.Engine
	// url is where the API listens.
	url     string
	maskers maskers
	// loading guards changes of settings.
	loading  sync.Mutex
	settings atomic.Pointer[settings]
	warnings *warnings
	registry *toolbox.Registry
	window   *busWindow
	observer *worker.Metrics
	triggers *triggerMetrics
	handler  *handler

	mu sync.Mutex
	// unreachable is why the bus can't be used, or nil.
	unreachable error
	// worker is that of the connection to the bus, or nil.
	worker *worker.Worker
}

// Run investigates until ctx ends. Then it claims no more sessions, gives back those that run,
// closes its connections and returns nil. It waits for a bus that is unreachable.
func Run(ctx context.Context, cfg Config) error {
	p, err := newProcess(cfg)
	if err != nil {
		return err
	}
	l, err := listenerAt(p.Addr, p.Token).Listen(ctx)
	if err != nil {
		return err
	}
	p.open(l.Addr())
	loaded := p.config().File()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return httpserve.Serve(ctx, l, httpserve.NewServer(p.handler, p.log), p.log)
	})
	group.Go(func() error { config.Watch(ctx, p.File, loaded, p.Hangup, p.reload); return nil })
	group.Go(func() error {
		// The tools outlive the sessions that use them.
		watching, stop := context.WithCancel(context.WithoutCancel(ctx))
		var watch sync.WaitGroup
		watch.Go(func() { p.registry.Run(watching) })
		defer watch.Wait()
		defer stop()
		connection := p.Bus
		connection.Name, connection.Role, connection.Logger = "tocsin investigator", bus.RoleInvestigator, p.log
		run := bus.RunConfig{Config: connection, Pause: sessionPause, Reachable: p.setReachable}
		return bus.Run(ctx, run, p.runSession)
	})
	p.log.Info("the investigator listens", "url", p.url)
	if p.Ready != nil {
		p.Ready(p.url)
	}
	return group.Wait()
}

func newProcess(cfg Config) (*process, error) {
	if cfg.LookupEnv == nil {
		cfg.LookupEnv = os.LookupEnv
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	if cfg.Addr == "" {
		cfg.Addr = DefaultAddr
	}
	if cfg.Monitor == nil {
		cfg.Monitor = &Monitor{}
	}
	cfg.Token = strings.TrimSpace(cfg.Token)
	cfg.LookupEnv = cfg.lookup(cfg.LookupEnv)
	log := cfg.Logger.With("component", "investigator")
	p := &process{
		Config: cfg, log: log, identity: presence.Identify("investigator", cfg.Version, log), warnings: &warnings{},
		redact: redact.New(), unreachable: bus.ErrUnreachable,
	}
	p.window = newBusWindow(p.redact, log)
	s, err := p.load()
	if err != nil {
		return nil, err
	}
	p.settings.Store(s)
	p.registry = toolbox.NewRegistry(s.registered())
	return p, nil
}

// lookup returns the environment for the file, with the settings on which its validity depends as
// they are in force: they may come from flags.
func (c Config) lookup(env func(string) (string, bool)) func(string) (string, bool) {
	return func(name string) (string, bool) {
		switch name {
		case config.TokenEnv:
			return c.Token, c.Token != ""
		case config.ProxiesEnv:
			return "set", len(c.Proxies.Networks) > 0
		}
		return env(name)
	}
}

// open makes the handler of a listener.
func (p *process) open(addr net.Addr) {
	p.url = "http://" + httpguard.DialAddress(addr)
	p.handler = newHandler(handlerConfig{
		addr: p.Addr, token: p.Token, exposed: httpguard.Exposed(addr), allowedHosts: p.AllowedHosts, proxies: p.Proxies,
		version: p.Version, config: p.config, registry: p.registry, warnings: p.warnings, metrics: p.Registry,
		reachable: p.reachable, logger: p.log,
	})
	registerGauges(p.handler.metrics, p.handler)
	p.triggers = newTriggerMetrics(p.handler.metrics)
	p.observer = worker.NewMetrics(p.Registry)
}

// load reads the file. The caller holds loading, or runs alone.
func (p *process) load() (*settings, error) {
	cfg, found, err := config.Load(p.File, p.LookupEnv)
	if err != nil {
		return nil, err
	}
	cfg.UseDashboard(p.DashboardURL)
	s, err := newSettings(cfg, p.settings.Load())
	if err != nil {
		return nil, err
	}
	for _, w := range found {
		p.log.Warn("the configuration has a problem", "where", w.String())
	}
	p.warnings.loaded(found, time.Now())
	return s, nil
}

// reload loads the file again. The last good configuration stays in force where that fails.
func (p *process) reload() {
	p.loading.Lock()
	defer p.loading.Unlock()
	s, err := p.load()
	if err != nil {
		p.log.Warn("the changed configuration is not used: it has errors", "error", err)
		p.warnings.failed(err, time.Now())
		return
	}
	p.settings.Store(s)
	p.registry.Update(s.registered())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.worker != nil {
		p.worker.SetLimits(s.limits())
	}
	p.log.Info("the changed configuration is in force", "file", p.File)
}

func (p *process) config() *config.Config { return p.settings.Load().config }

func (p *process) mask(text string) string { return p.settings.Load().mask(text) }

// maskFor masks a text of a session as its plan says: sessions that run keep their masking.
func (p *process) maskFor(plan session.Plan, text string) string {
	if plan.Masking == nil {
		return p.mask(text)
	}
	mask, err := p.maskers.of(plan.Masking.Groups)
	if err != nil { // groups of another version
		return p.mask(text)
	}
	return mask(text)
}

// maskers are the maskers of the plans, one for each selection of groups. The zero value is ready
// for use, and safe for concurrent use.
type maskers struct {
	mu   sync.Mutex
	made map[string]*masking.Masker
}

func (m *maskers) of(groups []string) (func(string) string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := strings.Join(groups, ",")
	masker := m.made[key]
	if masker == nil {
		var err error
		if masker, err = masking.New(masking.Config{Groups: groups}); err != nil {
			return nil, err
		}
		if m.made == nil {
			m.made = map[string]*masking.Masker{}
		}
		m.made[key] = masker
	}
	return masker.Mask, nil
}

func (p *process) server(used session.Server) (toolbox.Server, bool, error) {
	return p.settings.Load().server(used)
}

// Model implements [worker.Models].
func (p *process) Model(provider session.Provider, last bool) (worker.Model, bool) {
	return p.settings.Load().model(provider, last)
}

// setReachable records whether the bus is reachable: nil, or the reason why not.
func (p *process) setReachable(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unreachable = err
}

func (p *process) reachable() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unreachable
}

// health returns the health that the investigator reports on the bus.
func (p *process) health() query.Health {
	h := query.Health{OK: true, Investigator: &query.InvestigatorHealth{}}
	if err := p.handler.ready(); err != nil {
		h.OK, h.Reason = false, err.Error()
	}
	if b := p.handler.backend.Load(); b != nil {
		h.Investigator.Queued, h.Investigator.Running = b.index.openCounts()
	}
	models := p.settings.Load().models
	for _, name := range slices.Sorted(maps.Keys(models)) {
		if models[name].breaker.Open() {
			h.Investigator.ModelsDown = append(h.Investigator.ModelsDown, name)
		}
	}
	for _, s := range p.registry.Statuses() {
		if s.LastCheck != nil && !s.Healthy {
			h.Investigator.ServersDown = append(h.Investigator.ServersDown, s.ID)
		}
	}
	return h
}

// runSession works on one connection to the bus until ctx ends.
func (p *process) runSession(ctx context.Context, s *bus.Session) error {
	var b *backend
	var w *worker.Worker
	err := s.Await(ctx, bus.AwaitConfig{Waiting: p.setReachable, Logger: p.log}, func(ctx context.Context) (err error) {
		if err := p.prepare(ctx, s); err != nil {
			return err
		}
		// An alert that comes once requests are accepted is new, though the lease may take longer.
		if _, err := openTriggerPosition(ctx, s, p.log); err != nil {
			return err
		}
		b, w, err = p.compose(s)
		return err
	})
	if err != nil {
		return err
	}
	p.setReachable(nil)
	p.setWorker(w)
	p.handler.backend.Store(b)
	p.Monitor.backend.Store(b)
	defer func() {
		p.handler.backend.Store(nil)
		p.Monitor.backend.Store(nil)
		p.setWorker(nil)
	}()
	// The worker drains first: the other parts serve it, and requests, until then.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, serving := errgroup.WithContext(serving)
	working, stopWork := context.WithCancel(ctx)
	defer context.AfterFunc(serving, stopWork)()
	defer stopWork()
	group.Go(func() error { defer stop(); return untilStopped(working, w.Run(working)) })
	group.Go(func() error { return untilStopped(serving, b.run(serving)) })
	group.Go(func() error { return untilStopped(serving, p.window.Run(serving, s)) })
	requests := &requests{session: s, backend: b, mask: p.redact, sessionURL: p.sessionURL, log: p.log}
	group.Go(func() error {
		defer requests.stop()
		return untilStopped(serving, presence.Serve(serving, s, p.identity, p.health, requests.endpoints(serving)...))
	})
	group.Go(func() error { return b.endCancelled(serving, w.EndCancelled) })
	group.Go(func() error { return b.forgetDeleted(serving) })
	group.Go(func() error { return untilStopped(serving, b.followResolutions(serving, s)) })
	id := []byte(p.identity.ID)
	underLease := func(ctx context.Context, name string, store lease.Store, act func(context.Context) error) {
		lease.Run(ctx, lease.Config{Store: store, TTL: bus.InvestigatorTTL, Value: func() []byte { return id }, Logger: p.log.With("lease", name)}, act)
	}
	group.Go(func() error {
		sweeper := &sweeper{backend: b, log: p.log}
		underLease(serving, "sweep", b.journal.SweepLease(p.identity.ID), sweeper.run)
		return nil
	})
	group.Go(func() error {
		// It ends with the worker's claims: another process goes on at once.
		reader := &triggerReader{backend: b, session: s, window: p.window, mask: p.redact, metrics: p.triggers, now: time.Now, log: p.log}
		underLease(working, "triggers", b.journal.TriggersLease(p.identity.ID), reader.run)
		return nil
	})
	return group.Wait()
}

// untilStopped returns nil for the error with which a part ends because its context did.
func untilStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

// setWorker records the worker of the connection, or nil. The configuration may have been loaded
// again since the worker was made.
func (p *process) setWorker(w *worker.Worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worker = w
	if w != nil {
		w.SetLimits(p.settings.Load().limits())
	}
}

// prepare checks that the bus has all that is needed, and creates the streams if Provision is set.
func (p *process) prepare(ctx context.Context, s *bus.Session) error {
	if p.Provision {
		if err := bus.Provision(ctx, s, p.Layout, p.log); err != nil {
			return err
		}
	}
	for _, stream := range []string{
		bus.StreamInvestigations, bus.StreamInvestigationTexts, bus.StreamInvestigationQueue, bus.StreamInvestigatorKeys,
		bus.StreamAlerts, bus.StreamKubernetes, bus.StreamCI,
	} {
		if err := s.Check(ctx, stream); err != nil {
			return err
		}
	}
	key, err := definitionKey(ctx, s)
	if err != nil {
		return err
	}
	p.loading.Lock()
	defer p.loading.Unlock()
	p.settings.Store(p.settings.Load().keyed(key))
	return nil
}

// definitionsKey is the key of the document with the key of the definitions in plans.
const definitionsKey = "definitions"

// definitionKey returns the key of the definitions, which all investigators of a bus share: a session
// finds its providers and servers in each of them that has their entries, also after a restart. The
// first one makes it.
func definitionKey(ctx context.Context, s *bus.Session) ([]byte, error) {
	entry, err := s.Document(bus.BucketInvestigator, definitionsKey).Update(ctx, func(old bus.Entry) ([]byte, error) {
		if len(old.Data) == config.DefinitionKeySize {
			return nil, bus.ErrUnchanged
		}
		return config.NewDefinitionKey(), nil
	})
	if err != nil {
		return nil, fmt.Errorf("share the key of the definitions in plans: %w", err)
	}
	return entry.Data, nil
}

// compose makes the parts that belong to one connection.
func (p *process) compose(s *bus.Session) (*backend, *worker.Worker, error) {
	var w *worker.Worker
	alerts, err := newAlertStore(s)
	if err != nil {
		return nil, nil, err
	}
	b, err := newBackend(backendConfig{
		session: s, config: p.config, mask: p.mask, logger: p.log, alerts: alerts.Find,
		appended: func(id string, seq uint64) { w.Appended(id, seq) },
	})
	if err != nil {
		return nil, nil, err
	}
	b.revisions = &revisions{alerts: alerts, mask: p.redact, sessionURL: p.sessionURL, free: b.journal.Free, runs: b.log.runs}
	builtins := &builtinServer{
		window: p.window, now: time.Now,
		ask: func(ctx context.Context, subject string, request any) ([]byte, error) {
			return bus.Ask(ctx, s, subject, request)
		},
	}
	w = worker.New(worker.Config{
		// A connection has a worker of its own, so that none is taken for an earlier one.
		Name: p.identity.ID + "-" + journal.NewSession(), Limits: p.settings.Load().limits(),
		Journal: b.journal, Texts: b.texts, Queue: worker.NewQueue(b.journal),
		Models: p, Tools: &worker.Toolbox{
			Registry: p.registry, Server: p.server,
			Builtins: func(submitted session.Submitted, servers []session.Server) []toolbox.Builtin {
				of := *builtins
				of.mask = func(text string) string { return p.maskFor(submitted.Plan, text) }
				return of.Builtins(servers)
			},
		},
		Known: &gatherer{window: p.window, mask: p.maskFor, now: time.Now}, Mask: p.maskFor,
		Started: b.revisions.Started, Ended: b.revisions.Ended, Observer: p.observer, Logger: p.log,
	})
	return b, w, nil
}

// sessionURL returns the address of a session.
func (p *process) sessionURL(id string) string { return p.config().SessionURL(id) }
