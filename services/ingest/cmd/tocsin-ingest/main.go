// Command tocsin-ingest is the HTTP intake alone, for an image of its own.
package main

import (
	"os"

	"github.com/tocsin-bus/tocsin/services/ingest"
	"github.com/tocsin-bus/tocsin/shared/service"
)

type cli struct {
	service.Settings
	Serve       ingest.Command     `cmd:"" default:"withargs" help:"Serve the HTTP intake. It need not be named."`
	Healthcheck ingest.Healthcheck `cmd:"" help:"Ask the one that runs here whether it is ready."`
}

func main() {
	os.Exit(service.Main("tocsin-ingest", "The HTTP intake of Tocsin, the alert bus for AI agents.", &cli{}))
}
