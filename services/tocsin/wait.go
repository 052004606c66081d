package main

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
	"github.com/tocsin-bus/tocsin/services/tocsin/quick"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/service"
)

type waitCommand struct {
	service.BusFlags
	Agent    string        `help:"Share the inbox of this coding agent in the working directory: claude-code, codex, gemini-cli, cursor or vscode." placeholder:"NAME"`
	Client   string        `help:"Whose inbox: that of the gateway with the same --client, which then tells no alert again. Default: one for tocsin wait in the working directory." env:"TOCSIN_CLIENT" placeholder:"NAME"`
	Severity string        `help:"Wait for this severity or above: info, warning or error." placeholder:"S"`
	Timeout  time.Duration `help:"End with status 3 after this long without such an alert, such as 30s. Default: never." placeholder:"D"`

	quick.NamespacesFlag
}

// Validate refuses what could never end well. A name in the environment is for the
// gateways that it starts: a flag on the command line wins over it.
func (c *waitCommand) Validate(line *kong.Context) error {
	if c.Agent != "" && c.Client != "" {
		switch agent, client := given(line, "agent"), given(line, "client"); {
		case agent && client:
			return errors.New("--agent and --client can't be used together: each says whose inbox it is")
		case client:
			c.Agent = ""
		default:
			c.Client = ""
		}
	}
	if c.Severity == "warn" { // as agents' notices have it
		c.Severity = string(alert.Warning)
	}
	if c.Severity != "" && alert.Severity(c.Severity).Rank() == 0 {
		return errors.New("--severity must be one of info, warning, error")
	}
	if _, known := inbox.FindAgent(c.Agent); !known && c.Agent != "" {
		return errors.New("--agent must be one of claude-code, codex, gemini-cli, cursor, vscode")
	}
	if c.Timeout < 0 {
		return errors.New("--timeout must not be negative")
	}
	_, err := c.Set()
	return err
}

// Run prints the pending alerts, as observe has them, once there is one of the
// severity.
func (c *waitCommand) Run(ctx context.Context, env service.Env) error {
	if err := needBus(env, c.BusFlags); err != nil {
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
		return errors.New("interrupted before an alert came: what pends is told to the next who asks")
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

// inbox is whose alerts are waited for.
func (c *waitCommand) inbox() (string, error) {
	if c.Client != "" {
		return inbox.NamedKey(c.Client), nil
	}
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find the working directory, by which the inbox is known without --client: %w", err)
	}
	if agent, ok := inbox.FindAgent(c.Agent); ok {
		return inbox.Key(agent.MCP, dir), nil
	}
	return inbox.NamedKey("tocsin wait in " + dir), nil
}
