package quick

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// Wait is the command `tocsin wait`, which blocks until an alert arrives.
type Wait struct {
	service.BusFlags
	Agent    string        `help:"Use the inbox of this coding agent in the working directory: ${agents}." placeholder:"NAME"`
	Client   string        `help:"Use the inbox of the gateway with this --client, which then does not deliver the alerts again. Default: an inbox of tocsin wait in the working directory." env:"TOCSIN_CLIENT" placeholder:"NAME"`
	Severity string        `help:"Minimum severity to wait for: info, warning or error. Default: any." placeholder:"S"`
	Timeout  time.Duration `help:"Maximum time to wait, such as 30s or 5m; then exit with status 3. Default: no limit." placeholder:"D"`

	NamespacesFlag
}

// Validate checks the flags. TOCSIN_CLIENT is meant for gateways, so a flag on the command
// line wins over it.
func (c *Wait) Validate(line *kong.Context) error {
	if c.Agent != "" && c.Client != "" {
		switch agent, client := Given(line, "agent"), Given(line, "client"); {
		case agent && client:
			return errors.New("--agent and --client can't be used together: each selects the inbox")
		case client:
			c.Agent = ""
		default:
			c.Client = ""
		}
	}
	if c.Severity == "warn" { // the level of notices
		c.Severity = string(alert.Warning)
	}
	if c.Severity != "" && alert.Severity(c.Severity).Rank() == 0 {
		return errors.New("--severity must be one of info, warning, error")
	}
	if _, known := inbox.FindAgent(c.Agent); !known && c.Agent != "" {
		return errors.New("--agent must be one of " + Vars()["agents"])
	}
	if c.Timeout < 0 {
		return errors.New("--timeout must not be negative")
	}
	_, err := c.Set()
	return err
}

// Run waits until an alert of the severity is pending, and prints all pending alerts, as
// observe does.
func (c *Wait) Run(ctx context.Context, env service.Env) error {
	if err := RequireBus(env, c.BusFlags); err != nil {
		return err
	}
	inbox, err := c.inbox()
	if err != nil {
		return err
	}
	shown, err := c.Set()
	if err != nil {
		return err
	}
	block, err := delivery.WaitForAlert(ctx, delivery.WaitConfig{
		Bus: env.Bus(c.BusFlags), Inbox: inbox, Namespaces: shown, Severity: alert.Severity(c.Severity), Timeout: c.Timeout, Logger: env.Logger,
	})
	if errors.Is(err, delivery.ErrNoAlert) && ctx.Err() != nil {
		return errors.New("interrupted before an alert came: pending alerts stay in the inbox")
	}
	if errors.Is(err, delivery.ErrNoAlert) {
		return fmt.Errorf("%w: %w", service.ErrTimeUp, err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.Stdout, block)
	return err
}

// inbox returns the key of the inbox to wait for.
func (c *Wait) inbox() (string, error) {
	if c.Client != "" {
		return inbox.NamedKey(c.Client), nil
	}
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find the working directory, which selects the inbox without --client: %w", err)
	}
	if agent, ok := inbox.FindAgent(c.Agent); ok {
		return inbox.Key(agent.MCP, dir), nil
	}
	return inbox.NamedKey("tocsin wait in " + dir), nil
}
