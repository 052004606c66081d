package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	gwsilences "github.com/tocsin-bus/tocsin/services/gateway/silences"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// silenceWait is how long the bus may take to do what is asked.
const silenceWait = 5 * time.Second

type silenceCommand struct {
	service.BusFlags
	App      string        `help:"Silence the alerts of this app; beside the others, of those that match all." placeholder:"A"`
	Category string        `help:"Silence the alerts of this category." placeholder:"C"`
	DedupKey string        `name:"dedup-key" help:"Silence the alerts with this key, as tocsin tail --json shows it." placeholder:"K"`
	For      time.Duration `help:"How long, from a minute to 7 days. Default: ${default}." default:"1h" placeholder:"D"`
	Reason   string        `help:"Why, for who looks at the list." placeholder:"TEXT"`
	List     bool          `help:"Show what is silenced and acknowledged."`
	End      string        `help:"End the silence with this id, or the acknowledgement of that alert." placeholder:"ID"`
}

// Validate refuses what asks for nothing, or for two things.
func (c *silenceCommand) Validate() error {
	asks := 0
	for _, asked := range []bool{cmp.Or(c.App, c.Category, c.DedupKey) != "", c.List, c.End != ""} {
		if asked {
			asks++
		}
	}
	switch {
	case asks != 1:
		return errors.New("say what to silence, by --app, --category or --dedup-key, or one of --list and --end ID")
	case c.Category != "" && !slices.Contains(alert.Categories(), alert.Category(c.Category)):
		return fmt.Errorf("--category must be one of %v", alert.Categories())
	case c.For < silence.MinDuration || c.For > silence.MaxDuration:
		return fmt.Errorf("--for must be between %s and %s", silence.MinDuration, silence.MaxDuration)
	}
	return c.BusFlags.Validate()
}

// Run silences for every agent, or shows or ends what is silenced.
func (c *silenceCommand) Run(ctx context.Context, env service.Env) error {
	return quietly(ctx, env, c.BusFlags, func(ctx context.Context, q gwsilences.Commands) error {
		switch {
		case c.List:
			return listQuiet(ctx, env, q)
		case c.End != "":
			if err := q.End(ctx, c.End); err != nil {
				return err
			}
			_, err := fmt.Fprintf(env.Stdout, "ended %s: what is raised from now on is told\n", c.End)
			return err
		}
		s, err := q.Silence(ctx, silence.Matcher{DedupKey: c.DedupKey, Category: alert.Category(c.Category), App: c.App}, c.For, c.Reason)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.Stdout, "silenced until %s; to end it: tocsin silence --end %s\n", s.Until.Local().Format(time.DateTime), s.ID)
		return err
	})
}

type ackCommand struct {
	service.BusFlags
	ID string `arg:"" name:"alert-id" help:"The id of the alert, as agents and tocsin tail --json show it."`
}

// Run acknowledges an alert for every agent.
func (c *ackCommand) Run(ctx context.Context, env service.Env) error {
	return quietly(ctx, env, c.BusFlags, func(ctx context.Context, q gwsilences.Commands) error {
		k, err := q.Ack(ctx, c.ID)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.Stdout, "acknowledged until %s, or until it is worse or over; to take it back: tocsin silence --end %s\n",
			k.Until.Local().Format(time.DateTime), k.AlertID)
		return err
	})
}

// listQuiet prints a line for each silence, then one for each acknowledgement.
func listQuiet(ctx context.Context, env service.Env, q gwsilences.Commands) error {
	set, err := q.List(ctx)
	if err != nil {
		return err
	}
	say := printer{w: env.Stdout}
	line := func(id, what string, until time.Time, by, why string) {
		text := fmt.Sprintf("%-26s  until %s  %s  by %s", id, until.Local().Format(time.DateTime), what, by)
		if why != "" {
			text += ": " + why
		}
		say.line(text)
	}
	for _, s := range set.Silences {
		var what []string
		for _, w := range []struct{ name, value string }{{"app", s.App}, {"category", string(s.Category)}, {"dedup_key", s.DedupKey}} {
			if w.value != "" {
				what = append(what, w.name+" "+w.value)
			}
		}
		line(s.ID, "silenced: "+strings.Join(what, ", "), s.Until, s.By, s.Reason)
	}
	for _, k := range set.Acks {
		line(k.AlertID, "acknowledged: app "+k.App+", dedup_key "+k.DedupKey, k.Until, k.By, "")
	}
	if len(set.Silences)+len(set.Acks) == 0 {
		say.line("nothing is silenced or acknowledged")
	}
	return say.err
}

// quietly does something on the running bus, in the user's name.
func quietly(ctx context.Context, env service.Env, flags service.BusFlags, do func(context.Context, gwsilences.Commands) error) error {
	if err := needBus(env, flags); err != nil {
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
		return fmt.Errorf("%w: look at tocsin doctor", bus.ErrAway)
	}
	return err
}
