package gateway

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tocsin-bus/tocsin/shared/service"
)

// Command serves MCP on stdin and stdout.
type Command struct {
	service.BusFlags
	Client string `help:"Name of the client whose inbox this is. Default: the MCP client's name and the working directory." env:"TOCSIN_CLIENT" placeholder:"NAME"`
}

// Run serves until stdin or ctx ends.
func (c *Command) Run(ctx context.Context, env service.Env) error {
	// A client that closed our stdout is told apart by the failing write.
	signal.Ignore(syscall.SIGPIPE)
	dir, err := os.Getwd()
	if err != nil && c.Client == "" {
		return fmt.Errorf("find the working directory, by which the client is known without --client: %w", err)
	}
	return Run(ctx, Config{
		Bus: env.Bus(c.BusFlags), Client: c.Client, Dir: dir, Stdin: env.Stdin, Stdout: env.Stdout,
		Version: env.Version.Version, Logger: env.Logger,
	})
}
