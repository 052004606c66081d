// Command tocsin-detector is the detector alone, for an image of its own.
package main

import (
	"os"

	"github.com/tocsin-bus/tocsin/services/detector"
	"github.com/tocsin-bus/tocsin/shared/service"
)

type cli struct {
	service.Settings
	Serve       detector.Command     `cmd:"" default:"withargs" help:"Detect. It need not be named."`
	Healthcheck detector.Healthcheck `cmd:"" help:"Ask the one that runs here whether it is ready."`
}

func main() {
	os.Exit(service.Main("tocsin-detector", "The detector of Tocsin, the alert bus for AI agents.", &cli{}))
}
