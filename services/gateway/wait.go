package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/namespaces"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// WaitConfig says what to wait for, and in whose name.
type WaitConfig struct {
	// Bus is how to join; Name and Role are filled in here.
	Bus bus.ConnConfig
	// Inbox is whose inbox this is; see [inbox.Key].
	Inbox string
	// Severity is the least that an alert must have to end the waiting; empty
	// means any.
	Severity alert.Severity
	// Timeout is how long to wait; 0 means for ever.
	Timeout time.Duration
	// Namespaces are those of Kubernetes whose alerts are told.
	Namespaces namespaces.Set
	Logger     *slog.Logger
}

// ErrNoAlert says that the time was up, or that ctx had ended, before there was
// an alert. Nothing was told, and all of it still waits.
var ErrNoAlert = errors.New("no alert came")

// Wait returns what pends for a client once one of it is urgent enough: the
// block that observe would add, with the less urgent alerts in it. What it
// returns counts as told, whether a gateway of the client asks next or another
// Wait. A bus that is away is waited for. Its error is ErrNoAlert.
func Wait(ctx context.Context, cfg WaitConfig) (block string, err error) {
	if cfg.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, cfg.Timeout)
		defer stop()
	}
	cfg.Bus.Name = "tocsin wait"
	// Streaming is off: there is nothing to write.
	g := newGateway(ctx, Config{Bus: cfg.Bus, Kubernetes: KubernetesConfig{Namespaces: cfg.Namespaces}, Logger: cfg.Logger}, nil)
	g.link.identify(cfg.Inbox)
	g.begin()
	defer func() { err = errors.Join(err, g.end()) }()
	return g.await(ctx, cfg.Severity.Rank())
}

// await holds until an alert of that rank pends, and hands over all that does.
// Another reader of the same client may be faster; then it waits for the next.
func (g *gateway) await(ctx context.Context, rank int) (string, error) {
	select {
	case <-g.link.caughtUp: // of the past, all is told at once
	case <-ctx.Done():
		return "", ErrNoAlert
	}
	for {
		why, err := g.session.wait(g.life, ctx, nil, rank, forever)
		if err != nil {
			return "", err
		}
		if why != alertPends || ctx.Err() != nil {
			return "", ErrNoAlert
		}
		// What pends is claimed now, and nobody else would be told of it: the time may
		// be up meanwhile, by a second or two at most (inbox.ClaimTimeout).
		if block, err := g.drain(context.WithoutCancel(ctx)); block != "" || err != nil {
			return block, err
		}
	}
}

// forever is longer than any process lives.
const forever = 100 * 365 * 24 * time.Hour
