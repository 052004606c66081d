package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/service"
)

const (
	// provisionRetry is the pause until a bus that is not ready is tried again.
	provisionRetry = 500 * time.Millisecond
	// provisionTry bounds one try: a cluster makes a stream within a second, but for
	// one that has just begun.
	provisionTry = 15 * time.Second
)

type provisionCommand struct {
	service.BusFlags
	service.LayoutFlags
	DryRun bool          `help:"Say what would be changed, and change nothing."`
	Wait   time.Duration `help:"How long to wait for a bus that is away or not ready, such as a cluster that is starting. Default: ${default}." default:"30s" placeholder:"D"`
}

// Validate refuses what there is nothing to do for.
func (c *provisionCommand) Validate() error {
	switch {
	case !c.External():
		return errors.New("--nats-url is missing: it names the bus to prepare; the embedded one of tocsin up needs no preparing")
	case c.Wait < 0:
		return errors.New("--wait must not be negative")
	}
	return nil
}

// Run makes on an external bus what Tocsin needs there, or says what it would make.
func (c *provisionCommand) Run(ctx context.Context, env service.Env) error {
	cfg := env.Bus(c.BusFlags)
	cfg.Name, cfg.Role = "tocsin provision", bus.RoleProvisioner
	conn, err := bus.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	ends := time.Now().Add(c.Wait)
	for {
		err := c.try(ctx, env, conn)
		if err == nil || ctx.Err() != nil || settled(err) || !time.Now().Before(ends) {
			return err
		}
		env.Logger.Debug("trying again", "because", err)
		select {
		case <-ctx.Done():
			return err
		case <-conn.Changes():
		case <-time.After(min(provisionRetry, time.Until(ends))):
		}
	}
}

// settled says whether an error stays, however long is waited.
func settled(err error) bool {
	for _, stays := range []error{bus.ErrIncompatible, bus.ErrDenied, bus.ErrKey, bus.ErrUntrusted} {
		if errors.Is(err, stays) {
			return true
		}
	}
	return false
}

func (c *provisionCommand) try(ctx context.Context, env service.Env, conn *bus.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, provisionTry)
	defer cancel()
	changes, err := bus.Plan(ctx, conn, c.Layout())
	if errors.Is(err, bus.ErrAway) && !settled(err) {
		return fmt.Errorf("%w: check TOCSIN_NATS_URL, and that a server listens there", err)
	}
	if errors.Is(err, bus.ErrDenied) {
		return errNotProvisioner(err)
	}
	if err != nil {
		return err
	}
	say := printer{w: env.Stdout}
	switch at := conn.NC.ConnectedUrlRedacted(); {
	case len(changes) == 0:
		say.line(at + " is prepared: there is nothing to change")
	case c.DryRun:
		for _, change := range changes {
			say.line("would do: " + change.Stream + ": " + change.What)
		}
	default:
		if err := bus.Provision(ctx, conn, c.Layout(), env.Logger); err != nil {
			if errors.Is(err, bus.ErrDenied) {
				return errNotProvisioner(err)
			}
			return err
		}
		for _, change := range changes {
			say.line("done: " + change.Stream + ": " + change.What)
		}
		say.line(at + " is prepared")
	}
	return say.err
}

func errNotProvisioner(err error) error {
	return fmt.Errorf("these credentials may not prepare a bus: name the provisioner's with TOCSIN_NATS_CREDS: %w", err)
}
