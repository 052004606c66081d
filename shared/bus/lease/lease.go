// Package lease lets one of several processes act at a time: the holder of a lease, which
// expires when it is not renewed.
//
// [Run] acquires a lease in a bucket of the bus, has a function act while it is held, and
// takes over from a holder that died. [Clock] is the rule by which any holder knows how long
// it may act, also after the process was paused or the machine suspended: it stops before
// the lease expires for the others. Two processes may still act for a moment, as when
// what one has sent arrives after it lost the lease; what they do must tolerate that.
package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

var (
	// ErrHeld is returned when another process holds the lease.
	ErrHeld = errors.New("another process holds the lease")
	// ErrLost is the cause with which the context of a holder ends that must stop acting
	// at once.
	ErrLost = errors.New("the lease could not be renewed in time")
)

// The times of a lease as shares of its TTL: 3 s, 2 s and 1 s of 10 s.
const (
	// renewalsPerTTL is how many renewals fit into a TTL, with one to spare.
	renewalsPerTTL = 3
	// TTL/marginDivisor is how much sooner a holder stops than the store forgets the lease.
	marginDivisor = 5
	// attemptsPerTTL is the number of times in a TTL that a process on standby tries to acquire the lease.
	attemptsPerTTL = 10
)

// Config configures [Run].
type Config struct {
	Store Store
	TTL   time.Duration
	// Value returns the content of the lease, at each renewal. Changed has it renewed at
	// once; it may be nil.
	Value   func() []byte
	Changed <-chan struct{}
	// Held is called with whether this process holds the lease, each time that this
	// changes. It may be nil.
	Held   func(held bool)
	Logger *slog.Logger
}

// Run waits for the lease, calls act while it is held, and starts over when the lease was
// lost or act has failed. It returns when ctx has ended and act has returned: act stops in
// order, still under the lease, which is then released. Where the lease is lost, the
// context of act ends with the cause [ErrLost]: act must stop at once.
func Run(ctx context.Context, cfg Config, act func(ctx context.Context) error) {
	var logged string // the last reason why the lease was not acquired
	for ctx.Err() == nil {
		sent := time.Now()
		revision, err := acquire(ctx, cfg)
		switch {
		case err == nil:
			logged = ""
			h := holder{Config: cfg, clock: NewClock(cfg.TTL - cfg.TTL/marginDivisor), revision: revision, renewed: make(chan renewal, 1)}
			if err := h.hold(ctx, sent, act); err != nil && ctx.Err() == nil {
				cfg.Logger.Warn("work under the lease restarts", "error", err)
			}
		case ctx.Err() != nil:
		case errors.Is(err, ErrHeld):
			if logged != ErrHeld.Error() {
				logged = ErrHeld.Error()
				cfg.Logger.Info("standing by: another process holds the lease")
			}
		case err.Error() != logged:
			logged = err.Error()
			cfg.Logger.Warn("waiting for the lease", "error", err)
		}
		// Processes on standby try at different times.
		wait(ctx, cfg.TTL/attemptsPerTTL/2+rand.N(cfg.TTL/attemptsPerTTL)/2) //nolint:gosec // guessing it gains nothing
	}
}

func acquire(ctx context.Context, cfg Config) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.TTL/renewalsPerTTL)
	defer cancel()
	return cfg.Store.Acquire(ctx, cfg.Value())
}

// holder holds the lease once. Its loop is hold.
type holder struct {
	Config
	clock    Clock
	revision uint64
	// renewed receives the result of the renewal under way, if renewing.
	renewed  chan renewal
	renewing bool
}

// renewal is the result of one attempt to renew.
type renewal struct {
	sent     time.Time
	revision uint64
	err      error
}

// hold runs act until it returns or the lease is lost. After the end of ctx, act may stop in
// order while the lease is still renewed.
func (h *holder) hold(ctx context.Context, sent time.Time, act func(context.Context) error) error {
	h.clock.Renew(sent, time.Now())
	acting, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	h.report(true)
	defer h.report(false)
	ended := make(chan error, 1)
	go func() { ended <- act(acting) }()
	renew := time.NewTimer(h.TTL / renewalsPerTTL)
	defer renew.Stop()
	expiry := time.NewTimer(h.clock.Left(time.Now()))
	defer expiry.Stop()
	// abort ends act at once, and returns why.
	abort := func(lost error) error {
		stop(ErrLost)
		err := <-ended
		h.awaitRenewal()
		return joinReasons(lost, err)
	}
	stopping := ctx.Done()
	for {
		select {
		case err := <-ended:
			stop(nil)
			h.awaitRenewal()
			h.release(ctx)
			return err
		case <-stopping:
			stopping = nil
			stop(context.Cause(ctx))
		case <-h.Changed:
			h.renew(acting)
		case <-renew.C:
			h.renew(acting)
			renew.Reset(h.TTL / renewalsPerTTL)
		case r := <-h.renewed:
			h.renewing = false
			switch {
			case r.err == nil:
				h.revision = r.revision
				h.clock.Renew(r.sent, time.Now())
				expiry.Reset(max(0, h.clock.Left(time.Now())))
			case errors.Is(r.err, ErrHeld):
				return abort(fmt.Errorf("%w: %w", ErrLost, r.err))
			default:
				h.Logger.Debug("the lease is not renewed yet", "error", r.err)
				renew.Reset(h.TTL / renewalsPerTTL / renewalsPerTTL)
			}
		case <-expiry.C:
			if left := h.clock.Left(time.Now()); left > 0 {
				expiry.Reset(left)
				continue
			}
			return abort(ErrLost)
		}
	}
}

// renew starts a renewal unless one is under way. The renewal has its own goroutine, because
// the loop has to stop in time also when the store does not answer. It goes on while act
// returns in order, because that is still under the lease.
func (h *holder) renew(ctx context.Context) {
	if h.renewing {
		return
	}
	h.renewing = true
	revision := h.revision
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.TTL/renewalsPerTTL)
		defer cancel()
		r := renewal{sent: time.Now()}
		r.revision, r.err = h.Store.Renew(ctx, h.Value(), revision)
		h.renewed <- r
	}()
}

// awaitRenewal waits for the renewal under way, so that its revision can be released.
func (h *holder) awaitRenewal() {
	if !h.renewing {
		return
	}
	if r := <-h.renewed; r.err == nil {
		h.revision = r.revision
	}
	h.renewing = false
}

// release gives the lease up, so that the next process need not wait until it expires.
func (h *holder) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.TTL/marginDivisor)
	defer cancel()
	if err := h.Store.Release(ctx, h.revision); err != nil {
		h.Logger.Info("the lease could not be released; it expires", "error", err)
	}
}

func (h *holder) report(held bool) {
	if h.Held != nil {
		h.Held(held)
	}
}

// joinReasons joins why the lease was lost with how act ended, unless that is the same.
func joinReasons(lost, ended error) error {
	if errors.Is(ended, ErrLost) {
		return lost
	}
	return errors.Join(lost, ended)
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
