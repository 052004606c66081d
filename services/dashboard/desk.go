package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// Bounds of what people ask for and do.
const (
	// deskPlaces is how many requests are under way to the bus; others wait.
	deskPlaces = 16
	// deskIn bounds one request.
	deskIn = 5 * time.Second
	// healthWait is how long services may take to say how they are, and healthFor how
	// long that is believed.
	healthWait = 500 * time.Millisecond
	healthFor  = 2 * time.Second
)

// desk asks and does what a person wants, as bus.RoleGateway may.
type desk struct {
	// cfg is nil where there is no desk; closed says why, in words for people.
	cfg    *bus.ConnConfig
	closed string

	mask   *redact.Engine
	who    presence.Config
	state  func() query.Health
	conn   atomic.Pointer[bus.Conn]
	places chan struct{}
	health healthCache
	log    *slog.Logger
}

func newDesk(cfg Config, mask *redact.Engine, state func() query.Health) *desk {
	return &desk{
		cfg: cfg.Desk, closed: cfg.NoDesk, mask: mask, state: state,
		who:    presence.Identify(string(bus.RoleDashboard), cfg.Version, cfg.Logger),
		places: make(chan struct{}, deskPlaces), log: cfg.Logger,
	}
}

func (d *desk) open() bool { return d.cfg != nil }

// run connects, and says on the bus how this dashboard is, until ctx ends.
func (d *desk) run(ctx context.Context) error {
	for d.open() && ctx.Err() == nil {
		if err := d.runOnce(ctx); err != nil {
			d.log.Warn("the desk connects to the bus again", "because", err)
		}
		pause(ctx, linkRetry)
	}
	return nil
}

func (d *desk) runOnce(ctx context.Context) error {
	c, err := bus.Connect(ctx, *d.cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	d.conn.Store(c)
	return presence.Serve(ctx, c, d.who, d.state)
}

// with does something on the connection, within deskIn and with a place of its own.
func (d *desk) with(ctx context.Context, do func(context.Context, *bus.Conn) (any, error)) (any, error) {
	if !d.open() {
		return nil, httpserve.Refuse(http.StatusServiceUnavailable, d.closed)
	}
	ctx, cancel := context.WithTimeout(ctx, deskIn)
	defer cancel()
	select {
	case d.places <- struct{}{}:
		defer func() { <-d.places }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c := d.conn.Load()
	switch {
	case c == nil:
		return nil, bus.ErrAway
	case !c.Connected():
		return nil, errors.Join(bus.ErrAway, c.Why())
	}
	value, err := do(ctx, c)
	if err != nil && !c.Connected() {
		return nil, bus.ErrAway
	}
	return value, err
}

// keeper changes what is told to nobody.
func (d *desk) keeper(c *bus.Conn) silence.Store { return silence.NewStore(c, d.mask, d.log) }

// ask asks the detector, and passes on what it says, fit to be shown.
func (d *desk) ask(ctx context.Context, subject string, question any) (any, error) {
	return d.with(ctx, func(ctx context.Context, c *bus.Conn) (any, error) {
		data, err := bus.Ask(ctx, c, subject, question)
		if err != nil {
			return nil, detectorError(err)
		}
		return shown(data)
	})
}

// detectorError is what is told of an error of the detector's.
func detectorError(err error) error {
	var no *bus.RefusedError
	switch {
	case errors.As(err, &no) && no.Code == "400":
		return httpserve.Refuse(http.StatusBadRequest, no.Text)
	case errors.Is(err, bus.ErrNoAnswer):
		return httpserve.Refuse(http.StatusServiceUnavailable, "the detector does not answer: tocsin doctor says what is wrong").Retry(httpserve.RetryAfter)
	}
	return err
}

// shown decodes JSON and cleans every text in it.
func shown(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, fmt.Errorf("decode the answer: %w", err)
	}
	return display.PageValue(value), nil
}

// healthCache is how the services were at the last look. The lock makes those who
// ask at the same time share one look.
type healthCache struct {
	mu  sync.Mutex
	at  time.Time
	all []query.Health
	err error
}

// healths is how all services on the bus are, as they say themselves.
func (d *desk) healths(ctx context.Context, c *bus.Conn) ([]query.Health, error) {
	h := &d.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) < healthFor && h.err == nil {
		return h.all, nil
	}
	// It is for all who wait: not only for who asked first.
	h.all, h.err = presence.Collect(context.WithoutCancel(ctx), c, healthWait)
	h.at = time.Now()
	return h.all, h.err
}
