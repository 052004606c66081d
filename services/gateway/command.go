package gateway

import (
	"context"
	"fmt"
	"os"

	"github.com/tocsin-bus/tocsin/shared/service"
)

// Command serves MCP on stdin and stdout.
type Command struct {
	service.BusFlags
	Client string `help:"Name of the client whose inbox this is. Default: the MCP client's name and the working directory." env:"TOCSIN_CLIENT" placeholder:"NAME"`
}

// Run serves until stdin or ctx ends.
func (c *Command) Run(ctx context.Context, env service.Env) error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	return Run(ctx, Config{
		Bus: env.Bus(c.BusFlags), Client: c.Client, Dir: dir, Stdin: env.Stdin, Stdout: env.Stdout,
		Version: env.Version.Version, Logger: env.Logger,
	})
}
