// Command tocsin-ingest is the HTTP intake alone, for an image of its own.
package main

import (
	"os"

	"github.com/tocsin-bus/tocsin/services/ingest"
	"github.com/tocsin-bus/tocsin/shared/service"
)

type cli struct {
	service.Settings
	ingest.Command
}

func main() {
	os.Exit(service.Main("tocsin-ingest", "The HTTP intake of Tocsin, the alert bus for AI agents.", &cli{}))
}
