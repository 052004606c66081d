package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/service"
)

const (
	// provisionRetry is the pause between attempts.
	provisionRetry = 500 * time.Millisecond
	// provisionTimeout bounds one attempt. A cluster creates a stream within a second,
	// unless it has just started.
	provisionTimeout = 15 * time.Second
)

type provisionCommand struct {
	service.BusFlags
	service.LayoutFlags
	DryRun bool          `help:"Print the changes and make none."`
	Wait   time.Duration `help:"Maximum time to wait for a bus that is unreachable or not ready, such as a cluster that is starting. Default: ${default}." default:"30s" placeholder:"D"`
}

// Validate requires an external bus.
func (c *provisionCommand) Validate() error {
	switch {
	case !c.External():
		return errors.New("--nats-url is required: the embedded bus of tocsin up needs no preparation")
	case c.Wait < 0:
		return errors.New("--wait must not be negative")
	}
	return nil
}

// Run creates the streams and buckets that Tocsin needs on an external bus, or prints what
// it would change.
func (c *provisionCommand) Run(ctx context.Context, env service.Env) error {
	cfg := env.Bus(c.BusFlags)
	cfg.Name, cfg.Role = "tocsin provision", bus.RoleProvisioner
	conn, err := bus.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline := time.Now().Add(c.Wait)
	var last error
	err = conn.Await(ctx, bus.AwaitConfig{
		Timeout: provisionTimeout, Pause: min(provisionRetry, c.Wait),
		Permanent: func(err error) bool { return permanent(err) || !time.Now().Before(deadline) },
		Waiting: func(err error) {
			last = err
			env.Logger.Debug("the bus is not ready, trying again", "error", err)
		},
		Logger: slog.New(slog.DiscardHandler),
	}, func(ctx context.Context) error { return c.try(ctx, env, conn) })
	if ctx.Err() != nil && last != nil { // what was waited for says more than the interrupt
		err = last
	}
	if errors.Is(err, bus.ErrUnreachable) && !permanent(err) {
		return fmt.Errorf("%w: check TOCSIN_NATS_URL, and that a NATS server listens there", err)
	}
	return err
}

// permanent reports whether another attempt would fail, too.
func permanent(err error) bool {
	for _, target := range []error{bus.ErrIncompatible, bus.ErrDenied, bus.ErrKey, bus.ErrUntrusted} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// try makes one attempt to prepare the bus.
func (c *provisionCommand) try(ctx context.Context, env service.Env, conn *bus.Session) error {
	changes, err := bus.Plan(ctx, conn, c.Layout())
	if errors.Is(err, bus.ErrDenied) {
		return errNotProvisioner(err)
	}
	if err != nil {
		return err
	}
	out := printer{w: env.Stdout}
	switch at := conn.NC.ConnectedUrlRedacted(); {
	case len(changes) == 0:
		out.line(at + " is prepared: nothing to change")
	case c.DryRun:
		for _, change := range changes {
			out.line("would change: " + change.Stream + ": " + change.Description)
		}
	default:
		if err := bus.Provision(ctx, conn, c.Layout(), env.Logger); err != nil {
			if errors.Is(err, bus.ErrDenied) {
				return errNotProvisioner(err)
			}
			return err
		}
		for _, change := range changes {
			out.line("changed: " + change.Stream + ": " + change.Description)
		}
		out.line(at + " is prepared")
	}
	return out.err
}

func errNotProvisioner(err error) error {
	return fmt.Errorf("these credentials may not prepare a bus: set TOCSIN_NATS_CREDS to those of the provisioner: %w", err)
}
