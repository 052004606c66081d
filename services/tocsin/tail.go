package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

// tailPast is how many past alerts are looked through for the first lines.
const tailPast = 100

// tailWait is how long the bus may take to answer before tail gives up.
const tailWait = 5 * time.Second

type tailCommand struct {
	service.BusFlags
	Category string `help:"Only this category." placeholder:"C"`
	Severity string `help:"Only this severity and above: info, warning or error." placeholder:"S"`
	Last     int    `help:"How many past alerts to show first, at most 100." default:"10"`
	JSON     bool   `name:"json" help:"One JSON object a line, as on the bus."`
}

// Validate refuses words that would silently match nothing.
func (c *tailCommand) Validate() error {
	if c.Severity != "" && alert.Severity(c.Severity).Rank() == 0 {
		return fmt.Errorf("--severity must be one of info, warning, error")
	}
	if c.Last < 0 || c.Last > tailPast {
		return fmt.Errorf("--last must be between 0 and %d", tailPast)
	}
	if c.Category == "" {
		return nil
	}
	for _, known := range alert.Categories() {
		if string(known) == c.Category {
			return nil
		}
	}
	return fmt.Errorf("--category must be one of %v", alert.Categories())
}

// Run shows the last few alerts that match, then each new one, until ctx ends.
func (c *tailCommand) Run(ctx context.Context, env service.Env) error {
	if !c.External() {
		_, err := statedir.At(env.StateDir).Running()
		if errors.Is(err, statedir.ErrNotRunning) {
			return fmt.Errorf("%w: start it with: tocsin up", err)
		}
		if err != nil {
			return err
		}
	}
	cfg := env.Bus(c.BusFlags)
	cfg.Name, cfg.Role = "tocsin tail", bus.RoleGateway
	conn, err := bus.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	first, last, err := alertRange(ctx, conn)
	if ctx.Err() != nil {
		return nil // asked to end while it waited
	}
	if err != nil {
		return err
	}
	mask := redact.New()
	start := first
	if last >= first+tailPast {
		start = last - tailPast + 1
	}
	past := make([]alert.Alert, 0, c.Last)
	follow := bus.FollowConfig{Stream: bus.StreamAlerts, Start: max(start, 1), Logger: env.Logger}
	if last < first || last == 0 {
		follow.Start = last + 1
	}
	return bus.Follow(ctx, conn, follow, func(m bus.Message) error {
		var a alert.Alert
		if err := json.Unmarshal(m.Data, &a); err != nil {
			env.Logger.Warn("not an alert", "subject", m.Subject, "error", err)
			return nil
		}
		// What stands on the bus may come from a detector of another version, or
		// from somebody else.
		mask.Alert(&a)
		if m.Seq > last {
			return c.show(env, a)
		}
		if c.matches(a) && c.Last > 0 {
			if len(past) == c.Last {
				past = append(past[:0], past[1:]...)
			}
			past = append(past, a)
		}
		if m.Seq == last {
			for _, a := range past {
				if err := c.show(env, a); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// alertRange waits for the bus and says which alerts it holds.
func alertRange(ctx context.Context, conn *bus.Conn) (first, last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, tailWait)
	defer cancel()
	if err := awaitBus(ctx, conn); err != nil {
		return 0, 0, err
	}
	var s jetstream.Stream
	if s, err = conn.JS.Stream(ctx, bus.StreamAlerts); err != nil {
		return 0, 0, fmt.Errorf("look at the alerts: %w", err)
	}
	state := s.CachedInfo().State
	return state.FirstSeq, state.LastSeq, nil
}

// awaitTick is how often is looked why there is no connection yet.
const awaitTick = 20 * time.Millisecond

// awaitBus waits for the connection until ctx ends, or until it is known why
// there will be none. Its error says what to do.
func awaitBus(ctx context.Context, conn *bus.Conn) error {
	tick := time.NewTicker(awaitTick)
	defer tick.Stop()
	for !conn.Connected() {
		if why := conn.Why(); why != nil {
			return why
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: look at tocsin doctor", bus.ErrAway)
		case <-tick.C:
		}
	}
	return nil
}

func (c *tailCommand) matches(a alert.Alert) bool {
	return (c.Category == "" || string(a.Category) == c.Category) &&
		a.Severity.Rank() >= alert.Severity(c.Severity).Rank()
}

// show prints one alert. A failing stdout ends tail.
func (c *tailCommand) show(env service.Env, a alert.Alert) error {
	if !c.matches(a) {
		return nil
	}
	if c.JSON {
		line, err := a.MarshalJSON()
		if err != nil {
			return err
		}
		// JSON escapes some control characters; the others become visible text
		// of the same strings.
		_, err = fmt.Fprintf(env.Stdout, "%s\n", untrusted.Visible(string(line)))
		return err
	}
	times := ""
	if a.Count > 1 {
		times = fmt.Sprintf(" (x%d)", a.Count)
	}
	// A terminal obeys control characters: never print outside text as it is.
	_, err := fmt.Fprintf(env.Stdout, "%s  %-7s  %-16s  %-10s  %s%s\n", a.Timestamp.Local().Format(time.TimeOnly),
		a.Severity, untrusted.Visible(string(a.Category)), untrusted.Visible(a.App), untrusted.Visible(a.Title), times)
	if err == nil && a.Detail != "" {
		_, err = fmt.Fprintf(env.Stdout, "          %s\n", untrusted.Visible(a.Detail))
	}
	return err
}
