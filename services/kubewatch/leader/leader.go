// Package leader sees to it that of several processes one acts at a time: the one
// whose lock stands in a store that forgets what is not renewed.
//
// It decides who may act and for how long. A holder that could not renew its lock for
// so long that another one may have it by now falls silent by itself, also when it was
// paused. What is done meanwhile it doesn't know. There may still be two for a moment,
// as when what one has sent is under way while it loses the lock: what they do must
// take no harm from that.
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Store keeps locks. A lock that was not written for its TTL is gone.
type Store interface {
	// Create writes a lock that is not there, and returns its revision. Its error is
	// ErrTaken where it is there.
	Create(ctx context.Context, key string, value []byte) (revision uint64, err error)
	// Update writes a lock whose revision is still the given one. Its error is ErrTaken
	// where it is not, and the lock is not ours.
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	// Delete removes a lock whose revision is still the given one.
	Delete(ctx context.Context, key string, revision uint64) error
}

// ErrTaken says that somebody else has the lock.
var ErrTaken = errors.New("another one has the lock")

// ErrLapsed is the cause with which the context of a holder ends that may not act any
// longer.
var ErrLapsed = errors.New("the lock could not be renewed in time")

// The times of a lock, as shares of its TTL: 3 s, 2 s and 1 s of 10 s.
const (
	// renewals is how many of them fit into a TTL, with one to spare.
	renewals = 3
	// margin is how much sooner than the store forgets it a holder falls silent.
	margin = 5
	// tries is how often in a TTL one that stands by tries to get it.
	tries = 10
)

// Config says which lock.
type Config struct {
	Store Store
	Key   string
	TTL   time.Duration
	// Value is what the lock says, asked for at each renewal. Changed has it renewed at
	// once; it may be nil.
	Value   func() []byte
	Changed <-chan struct{}
	// Holds is told whether the lock is ours now, each time that this changes. It may be nil.
	Holds  func(bool)
	Logger *slog.Logger
}

// Run waits for the lock, has act do its work while it is held, and begins anew when
// that was lost or act failed; it returns when ctx ends. Then act has ended in order,
// still under the lock, which is given up. The context of act ends with ErrLapsed as
// its cause where the lock is lost: then it must fall silent at once.
func Run(ctx context.Context, cfg Config, act func(ctx context.Context) error) {
	h := holder{Config: cfg}
	var told string
	for ctx.Err() == nil {
		sent := time.Now()
		revision, err := h.create(ctx)
		if err == nil {
			told = ""
			if err := h.hold(ctx, sent, revision, act); err != nil && ctx.Err() == nil {
				h.Logger.Warn("begins anew", "because", err)
			}
		} else if !errors.Is(err, ErrTaken) && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			h.Logger.Warn("waiting for the lock", "error", err)
		}
		// Not all at the same time.
		wait(ctx, h.TTL/tries/2+rand.N(h.TTL/tries)/2) //nolint:gosec // nobody gains by guessing it
	}
}

type holder struct{ Config }

func (h *holder) create(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, h.TTL/renewals)
	defer cancel()
	return h.Store.Create(ctx, h.Key, h.Value())
}

// hold has act work until it ends, ctx does or the lock is lost.
func (h *holder) hold(ctx context.Context, sent time.Time, revision uint64, act func(context.Context) error) error {
	lease := NewLease(h.TTL - h.TTL/margin)
	lease.Renew(sent)
	acting, silence := context.WithCancelCause(context.WithoutCancel(ctx))
	defer silence(nil)
	h.tell(true)
	defer h.tell(false)
	ended := make(chan error, 1)
	go func() { ended <- act(acting) }()
	renew := time.NewTimer(h.TTL / renewals)
	defer renew.Stop()
	lapse := time.NewTimer(lease.Left(time.Now()))
	defer lapse.Stop()
	renewing := make(chan renewal, 1)
	underWay := false
	begin := func() {
		if underWay {
			return
		}
		underWay = true
		// Beside the loop, which has to fall silent in time whatever the store does.
		go func(revision uint64) { renewing <- h.renew(acting, revision) }(revision)
	}
	// stop ends act, and returns when both it and a renewal that is under way have ended.
	stop := func(why error) error {
		silence(why)
		err := <-ended
		if underWay {
			if r := <-renewing; r.err == nil {
				revision = r.revision
			}
			underWay = false
		}
		return err
	}
	orderly := ctx.Done()
	for {
		select {
		case err := <-ended:
			ended <- err
			err = stop(nil)
			h.release(ctx, revision)
			return err
		case <-orderly:
			// It ends under the lock, which is renewed meanwhile.
			orderly = nil
			silence(context.Cause(ctx))
		case <-h.Changed:
			begin()
		case <-renew.C:
			begin()
			renew.Reset(h.TTL / renewals)
		case r := <-renewing:
			underWay = false
			switch {
			case r.err == nil:
				revision = r.revision
				lease.Renew(r.sent)
				lapse.Reset(max(0, lease.Left(time.Now())))
			case errors.Is(r.err, ErrTaken):
				return because(fmt.Errorf("%w: %w", ErrLapsed, r.err), stop(ErrLapsed))
			default:
				h.Logger.Debug("the lock is not renewed", "error", r.err)
				renew.Reset(h.TTL / renewals / renewals)
			}
		case <-lapse.C:
			if left := lease.Left(time.Now()); left > 0 {
				lapse.Reset(left)
				continue
			}
			return because(ErrLapsed, stop(ErrLapsed))
		}
	}
}

// because is why the lock was lost, with how act ended where that is not the same.
func because(lost, ended error) error {
	if errors.Is(ended, ErrLapsed) {
		return lost
	}
	return errors.Join(lost, ended)
}

// renewal is the outcome of one try to renew.
type renewal struct {
	sent     time.Time
	revision uint64
	err      error
}

// renew outlives the end of act: an orderly one is still under the lock.
func (h *holder) renew(ctx context.Context, revision uint64) renewal {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.TTL/renewals)
	defer cancel()
	r := renewal{sent: time.Now()}
	r.revision, r.err = h.Store.Update(ctx, h.Key, h.Value(), revision)
	return r
}

// release gives the lock up, so that another one need not wait until it is forgotten.
func (h *holder) release(ctx context.Context, revision uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.TTL/margin)
	defer cancel()
	if err := h.Store.Delete(ctx, h.Key, revision); err != nil {
		h.Logger.Info("the lock could not be given up; it is forgotten after a while", "error", err)
	}
}

func (h *holder) tell(holds bool) {
	if h.Holds != nil {
		h.Holds(holds)
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
