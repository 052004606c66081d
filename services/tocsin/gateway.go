package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/alecthomas/kong"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/gateway"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

type gatewayCommand struct {
	gateway.Command
	Autostart bool `help:"Start tocsin up in the background when no bus runs. Default: on." default:"true" negatable:"" env:"TOCSIN_AUTOSTART"`
}

// Validate refuses what contradicts itself. An address on the command line wins
// over a name in the environment, and the other way round.
func (c *gatewayCommand) Validate(line *kong.Context) error {
	switch http, client := given(line, "http"), given(line, "client"); {
	case http && !client:
		c.Client = ""
	case client && !http:
		c.HTTP = ""
	}
	return c.Command.Validate()
}

// Run serves MCP, and sees to it that there is a bus.
func (c *gatewayCommand) Run(ctx context.Context, env service.Env) error {
	if !c.Autostart || c.External() {
		return c.Command.Run(ctx, env)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group errgroup.Group
	group.Go(func() error {
		k := keeper{
			dir: statedir.At(env.StateDir), log: env.Logger.With("component", "keeper"),
			args: []string{"up", "--idle-exit", backgroundIdleExit, "--state-dir", env.StateDir},
		}
		if env.Config != "" {
			config, err := filepath.Abs(env.Config)
			if err != nil {
				return fmt.Errorf("find the settings file: %w", err)
			}
			k.args = append(k.args, "--config", config)
		}
		return k.run(ctx)
	})
	group.Go(func() error {
		defer cancel()
		return c.Command.Run(ctx, env)
	})
	return group.Wait()
}
