package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sony/gobreaker/v2"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// sink stores what was accepted.
type sink interface {
	// Publish returns when all messages are stored. Its errors are those of
	// [bus.Publisher].
	Publish(ctx context.Context, msgs ...*nats.Msg) error
	// Show writes a result to the view of CI results, and deletes those that it makes
	// outdated. Its errors are those of Publish, or errResultsBusy.
	Show(ctx context.Context, result *nats.Msg) error
	// Delivered reports whether a delivery, by its subject, was noted as stored.
	Delivered(ctx context.Context, subject string) (bool, error)
	// Ready returns why a write would not succeed now, or nil.
	Ready(ctx context.Context) error
}

const (
	// publishWindow is how many messages may wait for their acknowledgement.
	publishWindow = 4096
	// publishAtOnce is how many of them one request may have under way: a batch of
	// thousands of apps must not fill the window by itself, and then be refused with half
	// of it stored.
	publishAtOnce = 256
	// breakAfter is how many failures in a row open the circuit: writes are then refused
	// without trying.
	breakAfter = 5
	// breakFor is how long the circuit stays open until one write is tried.
	breakFor = 2 * time.Second
	// reconnectPause is the pause between attempts to connect or to provision.
	reconnectPause = 500 * time.Millisecond
	// provisionTimeout bounds one attempt to create the streams.
	provisionTimeout = 30 * time.Second
	// maxReason is the longest reason of an open circuit, in characters.
	maxReason = 300
	// readyFor is how long a check of the streams is valid.
	readyFor = time.Second
	// readyTimeout bounds one check of the streams.
	readyTimeout = 2 * time.Second
)

var errCircuitOpen = errors.New("the circuit to the bus is open, the last writes failed")

// busSink writes to the bus through a circuit breaker, so that not every request waits for
// a bus that does not answer.
type busSink struct {
	cfg       bus.ConnConfig
	provision bool
	layout    bus.Layout
	log       *slog.Logger
	// link is replaced by run alone, when a connection is closed for good.
	link    atomic.Pointer[link]
	breaker *gobreaker.CircuitBreaker[struct{}]
	failure atomic.Pointer[string]
	// changes informs the reporter of changes of the breaker.
	changes chan circuitChange
	ready   readiness
	view    *resultsView
}

type link struct {
	conn      *bus.Conn
	publisher *bus.Publisher
}

func openSink(ctx context.Context, cfg Config) (*busSink, error) {
	s := &busSink{
		cfg: cfg.Bus, provision: cfg.Provision, layout: cfg.Layout, log: cfg.Logger,
		changes: make(chan circuitChange, maxPending), view: newResultsView(cfg.Logger),
	}
	s.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: circuitName, MaxRequests: 1, Timeout: breakFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakAfter },
		// A bus that refuses a message is reachable.
		IsSuccessful:  func(err error) bool { return err == nil || errors.Is(err, bus.ErrRefused) },
		IsExcluded:    func(err error) bool { return errors.Is(err, bus.ErrBusy) || errors.Is(err, context.Canceled) },
		OnStateChange: s.circuitChanged,
	})
	return s, s.open(ctx)
}

func (s *busSink) open(ctx context.Context) error {
	c, err := bus.Connect(ctx, s.cfg)
	if err != nil {
		return err
	}
	p, err := bus.NewPublisher(c, publishWindow)
	if err != nil {
		c.Close()
		return err
	}
	s.link.Store(&link{c, p})
	return nil
}

func (s *busSink) close() { s.link.Load().conn.Close() }

// circuitChanged runs under the breaker's lock: it must not wait, and must not call the
// breaker.
func (s *busSink) circuitChanged(_ string, from, to gobreaker.State) {
	change := circuitChange{state: to}
	if reason := s.failure.Load(); to == gobreaker.StateOpen && reason != nil {
		change.reason = *reason
	}
	s.log.Warn("the circuit to the bus changed", "from", from.String(), "to", to.String(), "reason", change.reason)
	select {
	case s.changes <- change:
	default: // the reporter compares with the breaker itself
	}
}

// Publish writes the messages and waits for their acknowledgements.
func (s *busSink) Publish(ctx context.Context, msgs ...*nats.Msg) error {
	_, err := s.breaker.Execute(func() (struct{}, error) {
		publisher := s.link.Load().publisher
		for part := range slices.Chunk(msgs, publishAtOnce) {
			if _, err := publisher.Publish(ctx, part...); err != nil {
				text := sanitize.Cut(err.Error(), maxReason)
				s.failure.Store(&text)
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return s.circuitError()
	}
	return err
}

// Show adds a result to the view of CI results.
func (s *busSink) Show(ctx context.Context, result *nats.Msg) error {
	return s.view.put(ctx, s.link.Load().conn, func(ctx context.Context) error { return s.Publish(ctx, result) })
}

// Delivered looks for the note of a delivery.
func (s *busSink) Delivered(ctx context.Context, subject string) (bool, error) {
	return s.link.Load().conn.Has(ctx, bus.StreamDeliveries, subject)
}

// circuitError returns why writes are not tried.
func (s *busSink) circuitError() error {
	if reason := s.failure.Load(); reason != nil {
		return fmt.Errorf("%w: %s", errCircuitOpen, *reason)
	}
	return errCircuitOpen
}

// run keeps a usable connection until ctx ends. The client closes one for good when its
// credentials are refused, as after a wiped state directory; run then opens another. It
// fails when the streams can't be created.
func (s *busSink) run(ctx context.Context) error {
	provisioned, logged := !s.provision, ""
	for {
		var again <-chan time.Time
		l := s.link.Load()
		switch {
		case l.conn.NC.IsClosed():
			s.log.Warn("the bus closed the connection: reconnecting", "error", l.conn.NC.LastError())
			if err := s.open(ctx); err != nil {
				s.log.Warn("cannot reach the bus, retrying", "error", err)
			}
			again = time.After(reconnectPause)
		case !provisioned && l.conn.Connected():
			err := s.createStreams(ctx, l)
			if errors.Is(err, bus.ErrIncompatible) {
				return err
			}
			provisioned = err == nil
			if err != nil {
				if text := err.Error(); text != logged { // an attempt is made twice a second
					s.log.Warn("cannot create the streams, retrying", "error", err)
					logged = text
				}
				again = time.After(reconnectPause)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.link.Load().conn.Changes():
		case <-again:
		}
	}
}

func (s *busSink) createStreams(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, provisionTimeout)
	defer cancel()
	return bus.Provision(ctx, l.conn, s.layout, s.log)
}

// readiness caches the last check of the streams, so that frequent health checks cost the
// bus nothing. The lock makes concurrent ones share a check.
type readiness struct {
	mu      sync.Mutex
	link    *link
	checked time.Time
	err     error
}

// Ready returns why a write would not succeed now, or nil.
func (s *busSink) Ready(ctx context.Context) error {
	l := s.link.Load()
	if !l.conn.Connected() {
		return bus.ErrAway
	}
	if s.breaker.State() == gobreaker.StateOpen {
		return s.circuitError()
	}
	return s.ready.check(ctx, l)
}

func (r *readiness) check(ctx context.Context, l *link) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link == l && time.Since(r.checked) < readyFor {
		return r.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	r.err = l.conn.Check(ctx, bus.StreamTelemetry)
	if r.err == nil {
		r.err = l.conn.Check(ctx, bus.StreamCI)
	}
	r.link, r.checked = l, time.Now()
	return r.err
}
