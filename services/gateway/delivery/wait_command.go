package delivery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// WaitConfig selects the alerts to wait for, and the client that waits.
type WaitConfig struct {
	// Bus is how to connect. This package sets Name and Role.
	Bus bus.Config
	// Inbox is the key of the client's inbox, see [inbox.Key].
	Inbox string
	// Severity is the least that ends the wait; empty means any.
	Severity alert.Severity
	// Timeout is how long to wait; 0 means for ever.
	Timeout time.Duration
	// Namespaces are the Kubernetes namespaces whose alerts are delivered.
	Namespaces namespaces.Set
	Logger     *slog.Logger
}

// WaitForAlert returns the pending alerts of a client, including less severe ones, once one
// of them is severe enough: the block that observe would add. They count as delivered: no
// gateway or hook of the client delivers them again. It waits for a bus that is unreachable.
// The error may be [ErrNoAlert].
func WaitForAlert(ctx context.Context, cfg WaitConfig) (block string, err error) {
	if cfg.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, cfg.Timeout)
		defer stop()
	}
	log := cfg.Logger.With("component", "gateway")
	cfg.Bus.Name, cfg.Bus.Role, cfg.Bus.Logger = "tocsin wait", bus.RoleGateway, cfg.Logger
	life := busclient.NewLifetime(ctx)
	client := busclient.New(cfg.Bus, log)
	c := New(Config{Bus: client, Life: life, Visible: cfg.Namespaces.ShowsAlert, Mask: redact.New(), Logger: log})
	c.Identify(cfg.Inbox)
	var parts errgroup.Group
	parts.Go(c.Run)
	parts.Go(func() error { return client.Run(life.Context(), c.Serve) })
	defer func() {
		life.Abort()
		err = errors.Join(err, parts.Wait())
	}()
	return c.WaitAndTake(ctx, cfg.Severity.Rank())
}
