package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// sessionCheckInterval is the time between two checks whether the session of a Wait continues.
	sessionCheckInterval = 2 * time.Second
	// retryPause is the pause before the inbox is read again after a timeout.
	retryPause = 200 * time.Millisecond
)

// WaitConfig describes a wait for an alert that may wake an idle agent.
type WaitConfig struct {
	Config
	// Severity is the least severity that wakes the agent.
	Severity alert.Severity
	// Timeout is how long to wait; 0 means without end.
	Timeout time.Duration
}

// Wait waits after an agent has stopped for an alert that is worth waking it, and
// returns the pending alerts, at most [truncate.MaxText] bytes. They count as
// delivered. It returns "" when the time is up or ctx ends, when the session continues,
// ends or starts another Wait, and when the connection to the bus is closed.
func Wait(ctx context.Context, cfg WaitConfig) (text string, err error) {
	if cfg.Call.Moment != Stop {
		return "", nil
	}
	if cfg.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, cfg.Timeout)
		defer stop()
	}
	r, err := newResponder(ctx, cfg.Config)
	if err != nil {
		return "", err
	}
	defer r.bus.Close()
	w := &idleWait{responder: r, minSeverity: cfg.Severity, id: fmt.Sprintf("%d@%d", os.Getpid(), time.Now().UnixNano())}
	text, err = w.run(ctx)
	// A bus that is stopping may have no responders for a moment before it closes.
	if ctx.Err() != nil || r.bus.Err() != nil || errors.Is(err, nats.ErrNoResponders) {
		err = nil
	}
	return text, err
}

// idleWait is one Wait of a session that has stopped.
type idleWait struct {
	*responder
	minSeverity alert.Severity
	// id distinguishes this wait from others of the session.
	id string
}

// run returns the alerts that wake the agent, or "" when there is nothing to wait for
// any more.
func (w *idleWait) run(ctx context.Context) (text string, err error) {
	end, err := w.register(ctx)
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(ctx)
	arrived := make(chan struct{}, 1) // an alert of the severity came
	if !w.cfg.Call.StopBlocked {
		arrived <- struct{}{} // an error may have come before the agent stopped
	}
	followed := make(chan error, 1)
	go func() { followed <- w.follow(ctx, end, arrived) }()
	ended := false
	defer func() {
		stop()
		if !ended {
			<-followed //nolint:errcheck // it ends because this one does
		}
	}()

	check := time.NewTicker(sessionCheckInterval)
	defer check.Stop()
	retry := time.NewTimer(0)
	retry.Stop()
	defer retry.Stop()
	for {
		try := false
		select {
		case <-ctx.Done():
			return "", nil
		case err := <-followed:
			ended = true
			return "", err
		case <-check.C:
			if current, err := w.isCurrent(ctx); err == nil && !current { // after an error, the next tick checks again
				return "", nil
			}
		case <-arrived:
			try = true
		case <-retry.C:
			try = true
		}
		if !try {
			continue
		}
		text, current, err := w.tryDeliver(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			retry.Reset(retryPause) // the bus is busy
		case err != nil || text != "" || !current:
			return text, err
		}
	}
}

// register makes this wait the one of its session, and returns the position of the newest alert.
func (w *idleWait) register(ctx context.Context) (end bus.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.readTimeout())
	defer cancel()
	if err := w.updateState(ctx, func(s *sessionState) { s.Waiter = w.id }); err != nil {
		return bus.Position{}, err
	}
	p, err := w.read(ctx)
	if err != nil {
		return bus.Position{}, err
	}
	return p.end, nil
}

// follow signals arrived for each alert after a position that is severe enough. It
// returns when ctx ends or the connection is closed.
func (w *idleWait) follow(ctx context.Context, after bus.Position, arrived chan<- struct{}) error {
	return w.bus.Follow(ctx, bus.FollowConfig{
		Stream: bus.StreamAlerts, After: after, HeadersOnly: true, Logger: w.cfg.Logger,
	}, func(m bus.Message) error {
		severity := alert.Severity(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
		if severity.Rank() >= w.minSeverity.Rank() {
			select {
			case arrived <- struct{}{}:
			default: // one is signaled already
			}
		}
		return nil
	})
}

// isCurrent reports whether this wait still serves the session: the session neither
// continued nor ended, and started no other wait.
func (w *idleWait) isCurrent(ctx context.Context) (bool, error) {
	if w.cfg.Call.Session == "" {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, inbox.ClaimTimeout)
	defer cancel()
	state, _, err := loadState(ctx, w.bus, w.client, w.cfg.Call.Session)
	return err == nil && state.Waiter == w.id, err
}

// tryDeliver takes the pending alerts if one of them is worth waking the agent, and
// this wait is still the session's.
func (w *idleWait) tryDeliver(ctx context.Context) (text string, current bool, err error) {
	if current, err := w.isCurrent(ctx); err != nil || !current {
		return "", false, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.readTimeout())
	defer cancel()
	text, err = w.deliver(ctx, truncate.MaxText-len(newAlertLead), func(p *pendingAlerts) bool { return hasOpenSince(w.minSeverity, p.stale)(p) })
	if err != nil || text == "" {
		return "", true, err
	}
	return newAlertLead + text, true, nil
}
