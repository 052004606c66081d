package gateway

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
	// outlookName is that of a connection that serves no client: a bus that ends when
	// it is alone does not count it, see ConnName.
	outlookName = "tocsin outlook"
	// outlookFor is how long an answer is believed, so that being asked often costs
	// the bus nothing; outlookTimeout bounds one look.
	outlookFor     = time.Second
	outlookTimeout = 2 * time.Second
)

// outlook knows whether a client that comes now would find the bus. Each client
// has a connection of its own; this one is there before them.
type outlook struct {
	cfg  bus.ConnConfig
	conn atomic.Pointer[bus.Conn]
	log  *slog.Logger

	// mu makes those who ask at the same time share one look.
	mu  sync.Mutex
	at  time.Time
	err error
}

func newOutlook(cfg bus.ConnConfig, log *slog.Logger) *outlook {
	cfg.Name, cfg.Role, cfg.Logger = outlookName, bus.RoleGateway, log
	return &outlook{cfg: cfg, log: log, err: bus.ErrAway}
}

// run keeps a connection until ctx ends.
func (o *outlook) run(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := bus.Connect(ctx, o.cfg)
		if err != nil {
			o.log.Warn("the bus can't be joined", "because", err)
			o.note(err)
			pause(ctx)
			continue
		}
		closed := c.NC.StatusChanged(nats.CLOSED)
		o.conn.Store(c)
		if !c.NC.IsClosed() { // it may have been before anybody listened
			select {
			case <-ctx.Done():
			case <-closed:
			}
		}
		c.NC.RemoveStatusListener(closed)
		c.Close()
		pause(ctx)
	}
}

// note remembers why there is no connection.
func (o *outlook) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.at = err, time.Time{}
}

// connected says whether the bus is there.
func (o *outlook) connected() bool {
	c := o.conn.Load()
	return c != nil && c.Connected()
}

// ready says why a client that comes now would see no alerts, or nil.
func (o *outlook) ready(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.conn.Load()
	switch {
	case c == nil:
		return o.err
	case time.Since(o.at) < outlookFor && (o.err != nil || c.Connected()):
		return o.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outlookTimeout)
	defer cancel()
	o.err, o.at = c.Check(ctx, bus.StreamAlerts), time.Now()
	return o.err
}
