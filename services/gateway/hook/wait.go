package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// watchEvery is how often a waiting hook looks whether its session goes on.
	watchEvery = 2 * time.Second
	// wakeRetry is the pause before a bus that did not answer in time is asked again.
	wakeRetry = 200 * time.Millisecond
)

// WaitConfig says what a hook waits for that may wake an idle session.
type WaitConfig struct {
	Config
	// Severity is the least that an alert must have.
	Severity alert.Severity
	// Timeout is how long to wait; 0 means for ever.
	Timeout time.Duration
}

// errOver says that there is nothing to wait for any more, errWoken that what was
// waited for has come.
var (
	errOver  = errors.New("the session goes on, or it has ended")
	errWoken = errors.New("an alert came")
)

// Wait waits, once an agent has stopped, for an alert that is worth waking it,
// and returns what waits by then, at most truncate.MaxText. It returns nothing when
// the time is up or ctx has ended, when the session goes on, ends or waits anew,
// or when the bus goes away. What it returns counts as told.
func Wait(ctx context.Context, cfg WaitConfig) (text string, err error) {
	if cfg.Call.Moment != Stop {
		return "", nil
	}
	if cfg.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, cfg.Timeout)
		defer stop()
	}
	h, err := newHooked(ctx, cfg.Config)
	if err != nil {
		return "", err
	}
	defer h.conn.Close()
	n := &night{hooked: h, least: cfg.Severity, id: fmt.Sprintf("%d@%d", os.Getpid(), time.Now().UnixNano())}
	err = n.wait(ctx)
	// A bus that is about to end has nobody to answer a moment before it closes.
	if errors.Is(err, errWoken) || errors.Is(err, errOver) || errors.Is(err, nats.ErrNoResponders) || h.conn.NC.IsClosed() {
		return n.text, nil
	}
	return n.text, err
}

// wait ends with errWoken, with errOver, or because it could not.
func (n *night) wait(ctx context.Context) error {
	end, err := n.begin(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.watch(ctx) })
	group.Go(func() error {
		if err := n.look(ctx); err != nil {
			return err
		}
		err := bus.Follow(ctx, n.conn, bus.FollowConfig{
			Stream: bus.StreamAlerts, Start: end.Seq + 1, Created: end.Created, HeadersOnly: true, Logger: n.cfg.Logger,
		}, func(m bus.Message) error { return n.hear(ctx, m) })
		if err == nil {
			return errOver
		}
		return err
	})
	return group.Wait()
}

// night is one wait of a session that has stopped.
type night struct {
	*hooked
	least alert.Severity
	// id tells this wait from others of the session.
	id string
	// text is what woke it.
	text string
}

// begin says that this wait is the session's, and returns the place up to where
// the first look sees.
func (n *night) begin(ctx context.Context) (end inbox.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.patience())
	defer cancel()
	if err := n.remember(ctx, func(m *memory) { m.Waiter = n.id }); err != nil {
		return inbox.Position{}, err
	}
	w, err := n.read(ctx)
	if err != nil {
		return inbox.Position{}, err
	}
	return w.end, nil
}

// watch ends with errOver once the session goes on or ends.
func (n *night) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.conn.Changes():
			if n.conn.NC.IsClosed() {
				return errOver
			}
		case <-tick.C:
			if err := n.still(ctx); errors.Is(err, errOver) {
				return err // a bus that is busy is asked again
			}
		}
	}
}

// still is nil while this wait is the session's.
func (n *night) still(ctx context.Context) error {
	if n.cfg.Call.Session == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, inbox.ClaimTimeout)
	defer cancel()
	past, _, err := loadMemory(ctx, n.conn, n.client, n.cfg.Call.Session)
	if err == nil && past.Waiter != n.id {
		return errOver
	}
	return err
}

// look is what may wake the session at once: an error that came before it
// stopped. A session that has just been held back may stop first.
func (n *night) look(ctx context.Context) error {
	if n.cfg.Call.Held {
		return nil
	}
	return n.wake(ctx)
}

// hear takes an alert that has come as the occasion to look into the inbox.
func (n *night) hear(ctx context.Context, m bus.Message) error {
	severity := alert.Severity(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
	if severity.Rank() < n.least.Rank() {
		return nil
	}
	return n.wake(ctx)
}

// wake ends with errWoken when there is something to wake the session for. A bus
// that does not answer in time is asked again.
func (n *night) wake(ctx context.Context) error {
	for {
		err := n.tryWake(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(wakeRetry):
		}
	}
}

func (n *night) tryWake(ctx context.Context) error {
	if err := n.still(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.patience())
	defer cancel()
	text, err := n.tell(ctx, truncate.MaxText-len(heldLead), func(w *waiting) bool { return urgent(n.least, w.stale)(w) })
	if err != nil || text == "" {
		return err
	}
	n.text = heldLead + text
	return errWoken
}
