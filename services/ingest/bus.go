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

// sink stores accepted events, alerts and results.
type sink interface {
	// Publish returns when all messages are stored. Its errors are those of
	// [bus.Publisher].
	Publish(ctx context.Context, msgs ...*nats.Msg) error
	// Show writes a result to the view of CI results, and deletes those that it makes
	// outdated. Its errors are those of Publish, or errResultsBusy.
	Show(ctx context.Context, result *nats.Msg) error
	// Delivered reports whether the subject of a delivery is stored.
	Delivered(ctx context.Context, subject string) (bool, error)
	// Ready returns why a write would not succeed now, or nil.
	Ready(ctx context.Context) error
}

const (
	// publishWindow is how many messages may wait for their acknowledgement.
	publishWindow = 4096
	// maxPublishPerRequest is how many of them one request may have in flight: a batch of
	// thousands of apps must not fill the window by itself, and then be refused with half
	// of it stored.
	maxPublishPerRequest = 256
	// breakerFailures is how many failures in a row open the circuit: writes are then refused
	// without trying.
	breakerFailures = 5
	// breakerOpenTime is how long the circuit stays open until one write is tried.
	breakerOpenTime = 2 * time.Second
	// reconnectPause is the pause between two sessions, and between attempts to provision.
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
	link      *bus.Link
	provision bool
	layout    bus.Layout
	log       *slog.Logger
	// current is the newest session. Run replaces it.
	current atomic.Pointer[busSession]
	// opened is closed once there is a session.
	opened  chan struct{}
	breaker *gobreaker.CircuitBreaker[struct{}]
	failure atomic.Pointer[string]
	// changes informs the reporter of changes of the breaker.
	changes chan circuitChange
	ready   readiness
	view    *resultsView
}

// busSession is a session with its publisher.
type busSession struct {
	*bus.Session
	publisher *bus.Publisher
}

func newBusSink(cfg Config) *busSink {
	s := &busSink{
		provision: cfg.Provision, layout: cfg.Layout, log: cfg.Logger, opened: make(chan struct{}),
		changes: make(chan circuitChange, maxPending), view: newResultsView(cfg.Logger),
	}
	s.link = bus.NewLink(bus.RunConfig{
		Config: cfg.Bus, Pause: reconnectPause,
		// An error before the first session is one of the configuration. Later the state
		// directory may have been wiped, and is read again.
		Retry: func(err error) bool { return s.current.Load() != nil && !errors.Is(err, bus.ErrIncompatible) },
	})
	s.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: circuitName, MaxRequests: 1, Timeout: breakerOpenTime,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		// A bus that refuses a message is reachable.
		IsSuccessful:  func(err error) bool { return err == nil || errors.Is(err, bus.ErrRefused) },
		IsExcluded:    func(err error) bool { return errors.Is(err, bus.ErrBusy) || errors.Is(err, context.Canceled) },
		OnStateChange: s.circuitChanged,
	})
	return s
}

// run keeps a session on the bus until ctx ends. On each session it creates missing streams, if
// provision is set, and calls attend. It fails when the streams are incompatible, and when
// there can be no first session.
func (s *busSink) run(ctx context.Context, attend func(context.Context, *bus.Session)) error {
	return s.link.Run(ctx, func(ctx context.Context, session *bus.Session) error {
		publisher, err := bus.NewPublisher(session, publishWindow)
		if err != nil {
			return err
		}
		if s.current.Swap(&busSession{session, publisher}) == nil {
			close(s.opened)
		}
		attendCtx, leave := context.WithCancel(ctx) // ctx outlives an error of ours
		var attending sync.WaitGroup
		attending.Go(func() { attend(attendCtx, session) })
		defer attending.Wait()
		defer leave()
		if s.provision {
			err := session.Await(ctx, bus.AwaitConfig{Timeout: provisionTimeout, Pause: reconnectPause, Logger: s.log}, func(ctx context.Context) error {
				return bus.Provision(ctx, session, s.layout, s.log)
			})
			if err != nil {
				return err
			}
			s.provision = false
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

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
		publisher := s.current.Load().publisher
		for part := range slices.Chunk(msgs, maxPublishPerRequest) {
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
	return s.view.put(ctx, s.current.Load(), func(ctx context.Context) error { return s.Publish(ctx, result) })
}

// Delivered reports whether the subject of a delivery is stored.
func (s *busSink) Delivered(ctx context.Context, subject string) (bool, error) {
	return s.current.Load().Contains(ctx, bus.StreamDeliveries, subject)
}

// circuitError returns why writes are not tried.
func (s *busSink) circuitError() error {
	if reason := s.failure.Load(); reason != nil {
		return fmt.Errorf("%w: %s", errCircuitOpen, *reason)
	}
	return errCircuitOpen
}

// readiness caches the last check of the streams, so that frequent health checks cost the
// bus nothing. The lock makes concurrent ones share a check.
type readiness struct {
	mu      sync.Mutex
	session *busSession
	checked time.Time
	err     error
}

// Ready returns why a write would not succeed now, or nil.
func (s *busSink) Ready(ctx context.Context) error {
	session := s.current.Load()
	if !session.Connected() {
		return bus.ErrUnreachable
	}
	if s.breaker.State() == gobreaker.StateOpen {
		return s.circuitError()
	}
	return s.ready.check(ctx, session)
}

func (r *readiness) check(ctx context.Context, session *busSession) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session == session && time.Since(r.checked) < readyFor {
		return r.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	r.err = session.Check(ctx, bus.StreamTelemetry)
	if r.err == nil {
		r.err = session.Check(ctx, bus.StreamCI)
	}
	r.session, r.checked = session, time.Now()
	return r.err
}
