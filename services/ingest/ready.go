package ingest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// readyFor is how long an answer about the streams is believed.
	readyFor = time.Second
	// readyTimeout bounds one look at them.
	readyTimeout = 2 * time.Second
)

var errBroken = errors.New("the circuit to the bus is open, the last writes failed")

// readiness remembers what the last look at the streams gave, so that being
// asked often costs the bus nothing. The lock makes those who ask at the same
// time share one look.
type readiness struct {
	mu   sync.Mutex
	link *link
	at   time.Time
	err  error
}

// Ready says why a write would not succeed now, or nil.
func (s *busSink) Ready(ctx context.Context) error {
	l := s.link.Load()
	if !l.conn.Connected() {
		return bus.ErrAway
	}
	if s.breaker.State() == gobreaker.StateOpen {
		return s.broken()
	}
	return s.ready.check(ctx, l)
}

func (r *readiness) check(ctx context.Context, l *link) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link == l && time.Since(r.at) < readyFor {
		return r.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	r.err = l.conn.Check(ctx, bus.StreamTelemetry)
	if r.err == nil {
		r.err = l.conn.Check(ctx, bus.StreamCI)
	}
	r.link, r.at = l, time.Now()
	return r.err
}
