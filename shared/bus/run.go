package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Bounds of keeping a session.
const (
	// sessionPause is RunConfig.Pause where it is 0.
	sessionPause = 200 * time.Millisecond
	// reasonInterval is the time between two checks of the reason why the bus is unreachable.
	reasonInterval = 500 * time.Millisecond
	// awaitTimeout and awaitPause are those of AwaitConfig where they are 0.
	awaitTimeout = 30 * time.Second
	awaitPause   = 500 * time.Millisecond
)

// ErrGrace is the cause with which the context of [WithGrace] ends when the time is up.
var ErrGrace = errors.New("the time to finish is up")

// RunConfig configures [Run].
type RunConfig struct {
	Config
	// Pause is the time between two sessions; 0 means 200 ms.
	Pause time.Duration
	// Retry reports whether to start over after an error other than [ErrClosed]. Where it
	// is nil, such an error ends Run.
	Retry func(err error) bool
	// Reachable is called with nil each time the bus becomes reachable, and with the reason
	// when it becomes unreachable and each time that this changes: an error that wraps
	// [ErrUnreachable], [ErrClosed] or what Connect returned. It is called from one
	// goroutine at a time, and may be nil.
	Reachable func(err error)
}

// Run keeps a session on the bus until ctx ends. It connects, calls work with the session,
// and starts over, after a pause, when the connection is closed for good. That happens when
// the bus no longer knows our key, as after a change of its accounts: the key is then read
// again. From a lost connection a session recovers by itself.
//
// The context of work ends in one of two ways, by its cause:
//   - with the cause of ctx: work stops accepting and finishes what it has. The session
//     stays open until work returns. See [WithGrace].
//   - with an error that wraps [ErrClosed]: work aborts, because nothing can be sent.
//
// Run returns nil when ctx has ended and work has returned, and when work returns nil unless
// the session was closed: work then runs again on another session. An error of Connect or
// work ends Run unless the session was closed or cfg.Retry allows another session.
func Run(ctx context.Context, cfg RunConfig, work func(ctx context.Context, s *Session) error) error {
	return NewLink(cfg).Run(ctx, work)
}

// Link keeps a session as [Run] does, and gives it to goroutines that outlive a session.
// It is safe for concurrent use.
type Link struct {
	cfg RunConfig

	mu      sync.Mutex
	session *Session
	// err is why there is no session yet.
	err error
	// replaced is closed when there is another session.
	replaced chan struct{}
}

// NewLink returns a link without a session. [Link.Run] opens it.
func NewLink(cfg RunConfig) *Link {
	if cfg.Pause == 0 {
		cfg.Pause = sessionPause
	}
	return &Link{cfg: cfg, err: ErrUnreachable, replaced: make(chan struct{})}
}

// Session returns the newest session, or nil before the first.
func (l *Link) Session() *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// Connected returns the session, or an error that wraps [ErrUnreachable] while the bus
// can't be reached.
func (l *Link) Connected() (*Session, error) {
	l.mu.Lock()
	s, err := l.session, l.err
	l.mu.Unlock()
	switch {
	case s != nil && s.Connected():
		return s, nil
	case s != nil:
		return nil, s.unreachable()
	case errors.Is(err, ErrUnreachable):
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// Run is [Run] for the session of this link. It is called once.
func (l *Link) Run(ctx context.Context, work func(ctx context.Context, s *Session) error) error {
	var logged string // the last reason, to log each once in a row
	for {
		connected, err := l.runOnce(ctx, work)
		if connected {
			logged = ""
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			if errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) {
				return nil
			}
			if l.cfg.Retry != nil && l.cfg.Retry(err) {
				l.cfg.Logger.Warn("the session on the bus ended with an error", "error", err)
				return nil
			}
			return err
		case errors.Is(err, ErrClosed), l.cfg.Retry != nil && l.cfg.Retry(err):
		default:
			return err
		}
		if text := err.Error(); text != logged {
			logged = text
			l.cfg.Logger.Warn("the session on the bus ended; a new one is opened", "error", err)
		}
		timer := time.NewTimer(l.cfg.Pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// runOnce runs work on one session, and returns whether the bus was reached meanwhile.
func (l *Link) runOnce(ctx context.Context, work func(context.Context, *Session) error) (connected bool, err error) {
	s, err := Connect(ctx, l.cfg.Config)
	if err != nil {
		l.set(nil, err)
		l.report(err)
		return false, err
	}
	defer s.Close()
	l.set(s, nil)
	working, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { connected = l.watch(working, s, cancel) })
	err = work(working, s)
	closed := s.Err() // before we close it
	cancel(nil)
	watch.Wait()
	if closed != nil && ctx.Err() == nil {
		if err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, context.Canceled) {
			return connected, fmt.Errorf("%w: %w", closed, err)
		}
		return connected, closed
	}
	return connected, err
}

// set replaces the session, or keeps why there is none.
func (l *Link) set(s *Session, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	if s != nil {
		l.session = s
		close(l.replaced)
		l.replaced = make(chan struct{})
	}
}

func (l *Link) report(err error) {
	if l.cfg.Reachable != nil {
		l.cfg.Reachable(err)
	}
}

// watch reports whether the bus is reachable until ctx ends, and ends ctx when the session
// is closed for good. It returns whether the bus was ever reachable.
func (l *Link) watch(ctx context.Context, s *Session, end context.CancelCauseFunc) (connected bool) {
	changed := s.NC.StatusChanged()
	defer s.NC.RemoveStatusListener(changed)
	check := time.NewTicker(reasonInterval)
	defer check.Stop()
	reported := "none"
	for {
		var state error
		switch {
		case s.NC.IsClosed():
			state = s.Err()
		case !s.Connected():
			state = s.unreachable()
		default:
			connected = true
		}
		if text := fmt.Sprint(state); text != reported {
			reported = text
			l.report(state)
		}
		if errors.Is(state, ErrClosed) {
			end(state)
			return connected
		}
		select {
		case <-ctx.Done():
			return connected
		case <-s.Closed():
		case <-changed:
		case <-check.C:
		}
	}
}

// Follow is [Session.Follow] on the sessions of the link, one after the other, until ctx
// ends or handle fails.
func (l *Link) Follow(ctx context.Context, cfg FollowConfig, handle func(Message) error) error {
	for {
		s, err := l.awaitOpen(ctx)
		if err != nil {
			return err
		}
		if err = s.follow(ctx, &cfg, handle); errors.Is(err, ErrStop) {
			return nil
		}
		if !errors.Is(err, ErrClosed) {
			return err
		}
	}
}

// awaitOpen waits for a session that is not closed, or returns the cause of ctx.
func (l *Link) awaitOpen(ctx context.Context) (*Session, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		l.mu.Lock()
		s, replaced := l.session, l.replaced
		l.mu.Unlock()
		if s != nil && s.Err() == nil {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-replaced:
		}
	}
}

// AwaitConfig configures [Session.Await].
type AwaitConfig struct {
	// Timeout bounds one attempt, Pause is the time between two; 0 means 30 s and 500 ms.
	Timeout, Pause time.Duration
	// Permanent reports whether another attempt is of no use. Where it is nil, that is so
	// for [ErrIncompatible].
	Permanent func(err error) bool
	// Waiting is called with what is waited for, after each attempt that failed. It may be
	// nil.
	Waiting func(err error)
	Logger  *slog.Logger
}

// Await calls try while the bus is reachable, until it succeeds. It returns the error of try
// when that is permanent, an error that wraps [ErrClosed] when the session is closed for
// good, and the cause of ctx when ctx ends. Each reason to wait is logged once in a row.
func (s *Session) Await(ctx context.Context, cfg AwaitConfig, try func(ctx context.Context) error) error {
	if cfg.Timeout == 0 {
		cfg.Timeout = awaitTimeout
	}
	if cfg.Pause == 0 {
		cfg.Pause = awaitPause
	}
	if cfg.Permanent == nil {
		cfg.Permanent = func(err error) bool { return errors.Is(err, ErrIncompatible) }
	}
	if cfg.Waiting == nil {
		cfg.Waiting = func(error) {}
	}
	connected := s.NC.StatusChanged(nats.CONNECTED)
	defer s.NC.RemoveStatusListener(connected)
	var logged string
	for {
		if err := s.Err(); err != nil {
			cfg.Waiting(err)
			return err
		}
		err := s.attempt(ctx, cfg.Timeout, try)
		if err == nil || cfg.Permanent(err) {
			return err
		}
		if ctx.Err() == nil {
			cfg.Waiting(err)
			if text := err.Error(); text != logged {
				logged = text
				cfg.Logger.Warn("waiting for the bus", "error", err)
			}
		}
		timer := time.NewTimer(cfg.Pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-s.closed:
		case <-connected:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (s *Session) attempt(ctx context.Context, timeout time.Duration, try func(context.Context) error) error {
	if !s.Connected() {
		return s.unreachable()
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return try(ctx)
}

// WithGrace returns a context for finishing what was accepted before ctx ended: stop
// accepting when ctx ends, abort when the returned context ends. That is grace after ctx,
// with the cause [ErrGrace], or when cancel is called; and at once, with the cause of ctx,
// when that wraps [ErrClosed] or one of abortOn.
func WithGrace(ctx context.Context, grace time.Duration, abortOn ...error) (abort context.Context, cancel context.CancelFunc) {
	abort, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		for _, err := range append(abortOn, ErrClosed) {
			if errors.Is(cause, err) {
				end(cause)
				return
			}
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			end(ErrGrace)
		case <-abort.Done():
		}
	})
	return abort, func() { stop(); end(context.Canceled) }
}
