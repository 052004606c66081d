package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	gwsilences "github.com/tocsin-bus/tocsin/services/gateway/silences"
	"github.com/tocsin-bus/tocsin/services/tocsin/quick"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// silenceWait bounds a command of this file.
const silenceWait = 5 * time.Second

type silenceCommand struct {
	service.BusFlags
	App      string        `help:"App to silence. An alert must match all of --app, --category and --dedup-key that are given." placeholder:"A"`
	Category string        `help:"Category to silence." placeholder:"C"`
	DedupKey string        `name:"dedup-key" help:"Key of the alerts to silence, from tocsin tail --json." placeholder:"K"`
	For      time.Duration `help:"Duration of the silence, from 1m to 168h (7 days). Default: ${default}." default:"1h" placeholder:"D"`
	Reason   string        `help:"Reason, which --list shows." placeholder:"TEXT"`
	List     bool          `help:"List active silences and acknowledgements."`
	End      string        `help:"Remove the silence with this id, or the acknowledgement of the alert with this id." placeholder:"ID"`
}

// Validate requires exactly one of a silence, --list and --end.
func (c *silenceCommand) Validate() error {
	actions := 0
	for _, given := range []bool{cmp.Or(c.App, c.Category, c.DedupKey) != "", c.List, c.End != ""} {
		if given {
			actions++
		}
	}
	switch {
	case actions != 1:
		return errors.New("give --app, --category or --dedup-key to silence alerts, or one of --list and --end ID")
	case c.For < silence.MinDuration || c.For > silence.MaxDuration:
		return fmt.Errorf("--for must be between %s and %s", silence.MinDuration, silence.MaxDuration)
	}
	if c.Category != "" {
		if err := checkCategory(c.Category); err != nil {
			return err
		}
	}
	return c.BusFlags.Validate()
}

// Run adds a silence for all agents, lists what is silenced, or removes a silence.
func (c *silenceCommand) Run(ctx context.Context, env service.Env) error {
	return withSilences(ctx, env, c.BusFlags, func(ctx context.Context, q gwsilences.Commands) error {
		switch {
		case c.List:
			return listSilences(ctx, env, q)
		case c.End != "":
			if err := q.End(ctx, c.End); err != nil {
				return err
			}
			_, err := fmt.Fprintf(env.Stdout, "removed %s: alerts that are raised from now on are delivered\n", c.End)
			return err
		}
		s, err := q.Silence(ctx, silence.Matcher{DedupKey: c.DedupKey, Category: alert.Category(c.Category), App: c.App}, c.For, c.Reason)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.Stdout, "silenced until %s; to remove the silence: tocsin silence --end %s\n", s.Until.Local().Format(time.DateTime), s.ID)
		return err
	})
}

type ackCommand struct {
	service.BusFlags
	ID string `arg:"" name:"alert-id" help:"Id of the alert, from an agent or tocsin tail --json."`
}

// Run acknowledges an alert for all agents.
func (c *ackCommand) Run(ctx context.Context, env service.Env) error {
	return withSilences(ctx, env, c.BusFlags, func(ctx context.Context, q gwsilences.Commands) error {
		k, err := q.Ack(ctx, c.ID)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.Stdout, "acknowledged until %s, or until it escalates or resolves; to undo: tocsin silence --end %s\n",
			k.Until.Local().Format(time.DateTime), k.AlertID)
		return err
	})
}

// listSilences prints one line for each silence, then one for each acknowledgement.
func listSilences(ctx context.Context, env service.Env, q gwsilences.Commands) error {
	set, err := q.List(ctx)
	if err != nil {
		return err
	}
	out := printer{w: env.Stdout}
	line := func(id, description string, until time.Time, by, reason string) {
		text := fmt.Sprintf("%-26s  until %s  %s  by %s", id, until.Local().Format(time.DateTime), description, by)
		if reason != "" {
			text += ": " + reason
		}
		out.line(text)
	}
	for _, s := range set.Silences {
		var matches []string
		for _, m := range []struct{ name, value string }{{"app", s.App}, {"category", string(s.Category)}, {"dedup_key", s.DedupKey}} {
			if m.value != "" {
				matches = append(matches, m.name+" "+m.value)
			}
		}
		line(s.ID, "silenced: "+strings.Join(matches, ", "), s.Until, s.By, s.Reason)
	}
	for _, k := range set.Acks {
		line(k.AlertID, "acknowledged: app "+k.App+", dedup_key "+k.DedupKey, k.Until, k.By, "")
	}
	if len(set.Silences)+len(set.Acks) == 0 {
		out.line("nothing is silenced or acknowledged")
	}
	return out.err
}

// withSilences calls do with the silences of the running bus, in the user's name.
func withSilences(ctx context.Context, env service.Env, flags service.BusFlags, do func(context.Context, gwsilences.Commands) error) error {
	if err := quick.RequireBus(env, flags); err != nil {
		return err
	}
	cfg := env.Bus(flags)
	cfg.Name, cfg.Role = "tocsin silence", bus.RoleGateway
	ctx, cancel := context.WithTimeout(ctx, silenceWait)
	defer cancel()
	conn, err := bus.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := awaitBus(ctx, conn); err != nil {
		return err
	}
	by := "a shell"
	if u, err := user.Current(); err == nil && u.Username != "" {
		by = u.Username + " in a shell"
	}
	err = do(ctx, gwsilences.NewCommands(conn, by, env.Logger))
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: run tocsin doctor", bus.ErrUnreachable)
	}
	return err
}
