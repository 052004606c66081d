// Command tocsin-kubewatch is the kubewatch alone, for an image of its own.
package main

import (
	"os"

	"github.com/tocsin-bus/tocsin/services/kubewatch"
	"github.com/tocsin-bus/tocsin/shared/service"
)

type cli struct {
	service.Settings
	Serve       kubewatch.Command     `cmd:"" default:"withargs" help:"Watch Kubernetes. It need not be named."`
	Healthcheck kubewatch.Healthcheck `cmd:"" help:"Ask the one that runs here whether it is ready."`
}

func main() {
	os.Exit(service.Main("tocsin-kubewatch", "The watch of Kubernetes clusters of Tocsin, the alert bus for AI agents.", &cli{}))
}
