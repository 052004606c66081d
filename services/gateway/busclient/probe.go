package busclient

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// probeName names a session that serves no client: a bus that ends when no gateway
	// is connected does not count it.
	probeName = "tocsin probe"
	// probeValid is how long an answer is reused, so that frequent readiness checks
	// cost the bus nothing; probeTimeout bounds one check.
	probeValid   = time.Second
	probeTimeout = 2 * time.Second
)

// Probe checks whether a new client would reach the bus. It has a session of its own,
// because clients open theirs only when they connect.
type Probe struct {
	link *bus.Link

	// mu makes concurrent callers share one check.
	mu      sync.Mutex
	checked time.Time
	err     error
}

// NewProbe returns a probe whose session is opened by [Probe.Run].
func NewProbe(cfg bus.Config, log *slog.Logger) *Probe {
	cfg.Name, cfg.Role, cfg.Logger = probeName, bus.RoleGateway, log
	return &Probe{link: bus.NewLink(bus.RunConfig{Config: cfg, Pause: RetryPause, Retry: func(error) bool { return true }})}
}

// Run keeps a session until ctx ends.
func (p *Probe) Run(ctx context.Context) {
	// It never fails: every error is retried.
	_ = p.link.Run(ctx, func(ctx context.Context, _ *bus.Session) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

// Connected reports whether the bus is reachable.
func (p *Probe) Connected() bool {
	_, err := p.link.Connected()
	return err == nil
}

// Ready returns why a new client would get no alerts, or nil.
func (p *Probe) Ready(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	session := p.link.Session()
	if session == nil {
		_, err := p.link.Connected()
		return err
	}
	if time.Since(p.checked) < probeValid && (p.err != nil || session.Connected()) {
		return p.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	p.err, p.checked = session.Check(ctx, bus.StreamAlerts), time.Now()
	return p.err
}
