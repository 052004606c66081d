package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/gateway"
	"github.com/tocsin-bus/tocsin/services/tocsin/quick"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

type gatewayCommand struct {
	gateway.Command
	Autostart bool `help:"Start tocsin up in the background when no bus runs. Default: on." default:"true" negatable:"" env:"TOCSIN_AUTOSTART"`
}

// Pages of the program are released startupPages after the start, and then every
// idlePages: what tools needed meanwhile is rarely needed again soon.
const (
	startupPages = 2 * time.Second
	idlePages    = 10 * time.Minute
)

// Validate returns an error for --http together with --client. On the command line, one
// of them wins over the other in the environment.
func (c *gatewayCommand) Validate(line *kong.Context) error {
	switch http, client := quick.Given(line, "http"), quick.Given(line, "client"); {
	case http && !client:
		c.Client = ""
	case client && !http:
		c.HTTP = ""
	}
	return c.Command.Validate()
}

// Run serves MCP, and starts a bus in the background where none runs.
func (c *gatewayCommand) Run(ctx context.Context, env service.Env) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group errgroup.Group
	if c.HTTP == "" { // on stdio, each agent has a gateway
		group.Go(func() error {
			releaseRepeatedly(ctx, env.Logger)
			return nil
		})
	}
	if !c.Autostart || c.External() {
		group.Go(func() error {
			defer cancel()
			return c.Command.Run(ctx, env)
		})
		return group.Wait()
	}
	group.Go(func() error {
		supervisor := busSupervisor{
			dir: statedir.At(env.StateDir), log: env.Logger.With("component", "bus supervisor"),
			args: []string{"up", "--idle-exit", backgroundIdleExit, "--state-dir", env.StateDir},
		}
		if env.Config != "" {
			config, err := filepath.Abs(env.Config)
			if err != nil {
				return fmt.Errorf("find the settings file: %w", err)
			}
			supervisor.args = append(supervisor.args, "--config", config)
		}
		return supervisor.run(ctx)
	})
	group.Go(func() error {
		defer cancel()
		return c.Command.Run(ctx, env)
	})
	return group.Wait()
}

// releaseRepeatedly releases the pages of the program that are not in use until ctx ends.
func releaseRepeatedly(ctx context.Context, log *slog.Logger) {
	timer := time.NewTimer(startupPages)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := releaseProgram(); err != nil {
			log.Debug("the program's pages stay in memory", "error", err)
			return
		}
		timer.Reset(idlePages)
	}
}
