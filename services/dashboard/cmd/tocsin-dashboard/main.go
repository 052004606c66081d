// Command tocsin-dashboard is the dashboard alone, for an image of its own.
package main

import (
	"os"

	"github.com/tocsin-bus/tocsin/services/dashboard"
	"github.com/tocsin-bus/tocsin/shared/service"
)

type cli struct {
	service.Settings
	Serve       dashboard.Command     `cmd:"" default:"withargs" help:"Serve the dashboard. It need not be named."`
	Healthcheck dashboard.Healthcheck `cmd:"" help:"Ask the one that runs here whether it is ready."`
}

func main() {
	os.Exit(service.Main("tocsin-dashboard", "The dashboard of Tocsin, the alert bus for AI agents.", &cli{}))
}
