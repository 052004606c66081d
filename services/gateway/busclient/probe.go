package busclient

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// probeName names a connection that serves no client: a bus that ends when no
	// gateway is connected does not count it.
	probeName = "tocsin outlook"
	// probeValid is how long an answer is reused, so that frequent readiness checks
	// cost the bus nothing; probeTimeout bounds one check.
	probeValid   = time.Second
	probeTimeout = 2 * time.Second
)

// Probe checks whether a new client would reach the bus. Each client has a connection
// of its own; the probe's is there before them.
type Probe struct {
	cfg  bus.ConnConfig
	conn atomic.Pointer[bus.Conn]
	log  *slog.Logger

	// mu makes concurrent callers share one check.
	mu      sync.Mutex
	checked time.Time
	err     error
}

// NewProbe returns a probe that [Probe.Run] connects.
func NewProbe(cfg bus.ConnConfig, log *slog.Logger) *Probe {
	cfg.Name, cfg.Role, cfg.Logger = probeName, bus.RoleGateway, log
	return &Probe{cfg: cfg, log: log, err: bus.ErrAway}
}

// Run keeps a connection until ctx ends.
func (p *Probe) Run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := bus.Connect(ctx, p.cfg)
		if err != nil {
			p.log.Warn("cannot connect to the bus", "error", err)
			p.fail(err)
			Pause(ctx)
			continue
		}
		closed := conn.NC.StatusChanged(nats.CLOSED)
		p.conn.Store(conn)
		if !conn.NC.IsClosed() { // it may have been closed before the listener was added
			select {
			case <-ctx.Done():
			case <-closed:
			}
		}
		conn.NC.RemoveStatusListener(closed)
		conn.Close()
		Pause(ctx)
	}
}

// fail remembers why there is no connection.
func (p *Probe) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.checked = err, time.Time{}
}

// Connected reports whether the bus is reachable.
func (p *Probe) Connected() bool {
	conn := p.conn.Load()
	return conn != nil && conn.Connected()
}

// Ready returns why a new client would get no alerts, or nil.
func (p *Probe) Ready(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	conn := p.conn.Load()
	switch {
	case conn == nil:
		return p.err
	case time.Since(p.checked) < probeValid && (p.err != nil || conn.Connected()):
		return p.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	p.err, p.checked = conn.Check(ctx, bus.StreamAlerts), time.Now()
	return p.err
}
