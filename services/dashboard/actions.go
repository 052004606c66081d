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
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// Bounds of the requests of people.
const (
	// maxActions is how many requests run on the bus at a time; others wait.
	maxActions = 16
	// actionTimeout bounds one request, including the wait.
	actionTimeout = 5 * time.Second
	// healthWait is how long services may take to report their health, and healthTTL how
	// long the result is cached.
	healthWait = 500 * time.Millisecond
	healthTTL  = 2 * time.Second
)

// actions runs the requests of people on the bus, as [bus.RoleGateway] may.
type actions struct {
	// disabled is the reason why requests are not possible, or empty.
	disabled string

	mask      *redact.Engine
	identity  presence.Config
	ownHealth func() query.Health
	link      *bus.Link // nil where requests are not possible
	slots     chan struct{}
	health    healthCache
	log       *slog.Logger
}

func newActions(cfg Config, mask *redact.Engine, ownHealth func() query.Health) *actions {
	a := &actions{
		disabled: cfg.NoActions, mask: mask, ownHealth: ownHealth,
		identity: presence.Identify(string(bus.RoleDashboard), cfg.Version, cfg.Logger),
		slots:    make(chan struct{}, maxActions), log: cfg.Logger,
	}
	if cfg.Actions != nil {
		a.link = keepSession(*cfg.Actions)
	}
	return a
}

func (a *actions) enabled() bool { return a.link != nil }

// run connects, and answers health queries on the bus, until ctx ends.
func (a *actions) run(ctx context.Context) error {
	if !a.enabled() {
		return nil
	}
	return a.link.Run(ctx, func(ctx context.Context, s *bus.Session) error {
		return presence.Serve(ctx, s, a.identity, a.ownHealth)
	})
}

// withSession calls do with the session, within actionTimeout and the bound of maxActions.
func (a *actions) withSession(ctx context.Context, do func(context.Context, *bus.Session) (any, error)) (any, error) {
	if !a.enabled() {
		return nil, httpserve.Refuse(http.StatusServiceUnavailable, a.disabled)
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s, err := a.link.Connected()
	if err != nil {
		return nil, err
	}
	value, err := do(ctx, s)
	if err != nil && !s.Connected() {
		return nil, bus.ErrUnreachable
	}
	return value, err
}

// silences returns the store of silences and acknowledgements.
func (a *actions) silences(s *bus.Session) silence.Store { return silence.NewStore(s, a.mask, a.log) }

// askDetector queries the detector, and returns its answer, cleaned for the page.
func (a *actions) askDetector(ctx context.Context, subject string, request any) (any, error) {
	return a.withSession(ctx, func(ctx context.Context, s *bus.Session) (any, error) {
		data, err := bus.Ask(ctx, s, subject, request)
		if err != nil {
			return nil, detectorError(err)
		}
		return cleanJSON(data)
	})
}

// detectorError words an error of the detector for people.
func detectorError(err error) error {
	var no *bus.RefusedError
	switch {
	case errors.As(err, &no) && no.Code == "400":
		return httpserve.Refuse(http.StatusBadRequest, no.Text)
	case errors.Is(err, bus.ErrNoAnswer):
		return httpserve.Refuse(http.StatusServiceUnavailable, "the detector does not answer: run tocsin doctor to see why").Retry(httpserve.RetryAfter)
	}
	return err
}

// cleanJSON decodes JSON and cleans every text in it.
func cleanJSON(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, fmt.Errorf("decode the answer: %w", err)
	}
	return display.PageValue(value), nil
}

// healthCache has the last health of the services. Its lock makes concurrent requests share
// one query.
type healthCache struct {
	mu  sync.Mutex
	at  time.Time
	all []query.Health
	err error
}

// collectHealth returns the health that all services on the bus report.
func (a *actions) collectHealth(ctx context.Context, s *bus.Session) ([]query.Health, error) {
	h := &a.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) < healthTTL && h.err == nil {
		return h.all, nil
	}
	// Not cancelled with the first request: all that wait use the result.
	h.all, h.err = presence.Collect(context.WithoutCancel(ctx), s, healthWait)
	h.at = time.Now()
	return h.all, h.err
}
