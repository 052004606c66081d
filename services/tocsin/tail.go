package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/gateway/notify"
	"github.com/tocsin-bus/tocsin/services/tocsin/quick"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// tailPast is how many past messages of a stream are read for the first lines.
const tailPast = 100

// tailWait is how long the bus may take to answer before tail gives up.
const tailWait = 5 * time.Second

type tailCommand struct {
	service.BusFlags
	Category string `help:"Only alerts of this category." placeholder:"C"`
	Severity string `help:"Minimum severity: info, warning or error." placeholder:"S"`
	Last     int    `help:"Number of past alerts, and of past messages of agents, to show first, up to 100." default:"10"`
	JSON     bool   `name:"json" help:"Print one JSON object per line, as on the bus; messages of agents also have \"notice\": true."`
	// Shadow is a flag of an earlier release, accepted for one more release.
	Shadow bool `hidden:""`
	// Notices is a pointer because readers of --json expect alerts, and --category asks
	// for alerts: there, notices are shown only on request.
	Notices *bool `help:"Show messages of agents (notify), too. Default: on, but off with --json or --category." negatable:""`
}

// Validate refuses values that would match nothing.
func (c *tailCommand) Validate() error {
	if c.Severity == string(notify.Warn) { // the word of agents' notices
		c.Severity = string(alert.Warning)
	}
	if c.Severity != "" && alert.Severity(c.Severity).Rank() == 0 {
		return errors.New("--severity must be one of info, warning, error")
	}
	if c.Last < 0 || c.Last > tailPast {
		return fmt.Errorf("--last must be between 0 and %d", tailPast)
	}
	if c.Category != "" {
		if err := checkCategory(c.Category); err != nil {
			return err
		}
	}
	return c.BusFlags.Validate()
}

// checkCategory returns an error for a --category that is not one.
func checkCategory(category string) error {
	var names []string
	for _, known := range alert.Categories() {
		names = append(names, string(known))
	}
	if !slices.Contains(names, category) {
		return fmt.Errorf("--category must be one of %s", strings.Join(names, ", "))
	}
	return nil
}

func (c *tailCommand) notices() bool {
	if c.Notices != nil {
		return *c.Notices
	}
	return !c.JSON && c.Category == ""
}

// Run prints the last matching alerts and notices, then each new one, until ctx ends.
func (c *tailCommand) Run(ctx context.Context, env service.Env) error {
	if c.Shadow {
		env.Logger.Warn("tail --shadow has no effect, because rules no longer run in the shadow; leave it out")
	}
	if err := quick.RequireBus(env, c.BusFlags); err != nil {
		return err
	}
	cfg := env.Bus(c.BusFlags)
	cfg.Name, cfg.Role = "tocsin tail", bus.RoleGateway
	conn, err := bus.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	format := tailFormatter{tailCommand: c, mask: redact.New(), log: env.Logger}
	sources := []*tailSource{{stream: bus.StreamAlerts, keep: c.Last, read: format.alert}}
	if c.notices() {
		sources = append(sources, &tailSource{stream: bus.StreamNotices, keep: c.Last, read: format.notice})
	}
	for _, s := range sources {
		err := s.inspect(ctx, conn)
		if ctx.Err() != nil {
			return nil // stopped during the wait
		}
		if err != nil {
			return err
		}
	}
	past, live := make(chan []tailLine, len(sources)), make(chan tailLine)
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range sources {
		group.Go(func() error { return s.follow(ctx, conn, past, live, env.Logger) })
	}
	group.Go(func() error { return printLines(ctx, env.Stdout, len(sources), past, live) })
	return group.Wait()
}

// awaitTick is the time between two checks of the connection by awaitBus.
const awaitTick = 20 * time.Millisecond

// awaitBus waits until the bus is connected, ctx ends, or the reason is known why it can't
// be reached. Its error names the fix.
func awaitBus(ctx context.Context, conn *bus.Session) error {
	tick := time.NewTicker(awaitTick)
	defer tick.Stop()
	for !conn.Connected() {
		if why := conn.Why(); why != nil {
			return why
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: run tocsin doctor", bus.ErrUnreachable)
		case <-tick.C:
		}
	}
	return nil
}
