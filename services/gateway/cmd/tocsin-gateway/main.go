// Command tocsin-gateway is the MCP gateway alone, for an image of its own. It
// starts no bus.
package main

import (
	"os"

	"github.com/tocsin-bus/tocsin/services/gateway"
	"github.com/tocsin-bus/tocsin/shared/service"
)

type cli struct {
	service.Settings
	Serve       gateway.Command     `cmd:"" default:"withargs" help:"Serve MCP. It need not be named."`
	Healthcheck gateway.Healthcheck `cmd:"" help:"Ask the one that runs here whether it is ready."`
}

func main() {
	os.Exit(service.Main("tocsin-gateway", "The MCP gateway of Tocsin, the alert bus for AI agents.", &cli{}))
}
