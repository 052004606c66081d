package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sony/gobreaker/v2"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// sink is where accepted writes go.
type sink interface {
	// Publish returns when all messages are stored. Its errors are those of
	// bus.Publisher.
	Publish(ctx context.Context, msgs ...*nats.Msg) error
	// Show writes a result to the view of CI results, and deletes from it what
	// that makes outdated. Its errors are those of Publish, or errCrowded.
	Show(ctx context.Context, result *nats.Msg) error
	// Delivered says whether a delivery, by its subject, was noted to be taken.
	Delivered(ctx context.Context, subject string) (bool, error)
	// Ready says why a write would not succeed now, or nil.
	Ready(ctx context.Context) error
}

const (
	// publishWindow is how many messages may wait for their acknowledgement.
	publishWindow = 4096
	// publishAtOnce is how many of them one request may have under way: a batch
	// of thousands of apps must not fill the window by itself, and then be
	// turned away with half of it stored.
	publishAtOnce = 256
	// breakAfter failures in a row, writes are answered without trying.
	breakAfter = 5
	// breakFor is how long that lasts until one write is let through.
	breakFor = 2 * time.Second
	// reopenRetry is the pause between tries to connect anew or to provision.
	reopenRetry = 500 * time.Millisecond
	// provisionTimeout bounds one try to create the streams.
	provisionTimeout = 30 * time.Second
	// maxReason is the longest reason of a broken circuit, in characters.
	maxReason = 300
)

// busSink writes to the bus, through a circuit breaker: a bus that doesn't
// answer is not waited for by every request.
type busSink struct {
	cfg       bus.ConnConfig
	provision bool
	layout    bus.Layout
	log       *slog.Logger
	// link is swapped by run alone, when the client has given a connection up.
	link    atomic.Pointer[link]
	breaker *gobreaker.CircuitBreaker[struct{}]
	failure atomic.Pointer[string]
	// turns tells the reporter when the breaker changes its state.
	turns chan turn
	ready readiness
	view  *view
}

type link struct {
	conn      *bus.Conn
	publisher *bus.Publisher
}

func openSink(ctx context.Context, cfg Config) (*busSink, error) {
	s := &busSink{
		cfg: cfg.Bus, provision: cfg.Provision, layout: cfg.Layout, log: cfg.Logger,
		turns: make(chan turn, maxPending), view: newView(cfg.Logger),
	}
	s.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: circuitName, MaxRequests: 1, Timeout: breakFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakAfter },
		// A bus that refuses a message is there.
		IsSuccessful:  func(err error) bool { return err == nil || errors.Is(err, bus.ErrRefused) },
		IsExcluded:    func(err error) bool { return errors.Is(err, bus.ErrBusy) || errors.Is(err, context.Canceled) },
		OnStateChange: s.turned,
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

// turned runs under the breaker's lock: it must not wait, and must not ask the
// breaker anything.
func (s *busSink) turned(_ string, from, to gobreaker.State) {
	t := turn{state: to}
	if reason := s.failure.Load(); to == gobreaker.StateOpen && reason != nil {
		t.reason = *reason
	}
	s.log.Warn("the circuit to the bus changed", "from", from.String(), "to", to.String(), "reason", t.reason)
	select {
	case s.turns <- t:
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
		return s.broken()
	}
	return err
}

// Show brings the view of CI results up to date.
func (s *busSink) Show(ctx context.Context, result *nats.Msg) error {
	return s.view.put(ctx, s.link.Load().conn, func(ctx context.Context) error { return s.Publish(ctx, result) })
}

// Delivered asks the bus.
func (s *busSink) Delivered(ctx context.Context, subject string) (bool, error) {
	return s.link.Load().conn.Has(ctx, bus.StreamDeliveries, subject)
}

// broken says why writes are not even tried.
func (s *busSink) broken() error {
	if reason := s.failure.Load(); reason != nil {
		return fmt.Errorf("%w: %s", errBroken, *reason)
	}
	return errBroken
}

// run keeps the connection usable until ctx ends: the client gives up for good
// when its credentials are refused, as after a wiped state directory, and is
// then started anew. Its error says that the streams can't be made.
func (s *busSink) run(ctx context.Context) error {
	provisioned, told := !s.provision, ""
	for {
		var again <-chan time.Time
		l := s.link.Load()
		switch {
		case l.conn.NC.IsClosed():
			s.log.Warn("the bus has ended the connection: connecting anew", "error", l.conn.NC.LastError())
			if err := s.open(ctx); err != nil {
				s.log.Warn("waiting for the bus", "error", err)
			}
			again = time.After(reopenRetry)
		case !provisioned && l.conn.Connected():
			err := s.makeStreams(ctx, l)
			if errors.Is(err, bus.ErrIncompatible) {
				return err
			}
			provisioned = err == nil
			if err != nil {
				if text := err.Error(); text != told { // it is tried twice a second
					s.log.Warn("the streams could not be made", "error", err)
					told = text
				}
				again = time.After(reopenRetry)
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

func (s *busSink) makeStreams(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, provisionTimeout)
	defer cancel()
	return bus.Provision(ctx, l.conn, s.layout, s.log)
}
