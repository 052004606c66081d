// Command tocsin is an alert bus for AI agents: it takes in what browsers, apps
// and CI send, finds the few alerts that matter, and puts them in front of a
// coding agent through MCP.
package main

import (
	"os"
	"slices"

	"github.com/tocsin-bus/tocsin/services/dashboard"
	"github.com/tocsin-bus/tocsin/services/detector"
	"github.com/tocsin-bus/tocsin/services/ingest"
	"github.com/tocsin-bus/tocsin/services/kubewatch"
	"github.com/tocsin-bus/tocsin/services/tocsin/quick"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// cli is the command line: one field a command.
type cli struct {
	service.Settings

	Up          upCommand          `cmd:"" help:"Run bus, intake, detector and dashboard in the foreground."`
	Gateway     gatewayCommand     `cmd:"" help:"Serve MCP on stdin and stdout; starts the bus when none runs."`
	Ingest      ingest.Command     `cmd:"" help:"Run the HTTP intake alone."`
	Detector    detector.Command   `cmd:"" help:"Run the detector alone."`
	Dashboard   dashboard.Command  `cmd:"" help:"Run the dashboard alone."`
	Kubewatch   kubewatch.Command  `cmd:"" help:"Watch Kubernetes clusters: their events and faults, onto the bus."`
	Tail        tailCommand        `cmd:"" help:"Show the last alerts, then each new one."`
	Wait        waitCommand        `cmd:"" help:"Wait for an alert, print what pends, and end."`
	Silence     silenceCommand     `cmd:"" help:"Hold back alerts for every agent for a while; show or end that."`
	Ack         ackCommand         `cmd:"" help:"Acknowledge an alert for every agent: its repetitions are held back."`
	Hook        quick.Hook         `cmd:"" help:"Answer a hook of a coding agent: pending alerts, in the client's format."`
	CI          quick.CI           `cmd:"" name:"ci" help:"Post a CI result, from a pipeline."`
	Install     installCommand     `cmd:"" help:"Set up an MCP client: the gateway, and hooks that put alerts before its model."`
	Uninstall   uninstallCommand   `cmd:"" help:"Take out of an MCP client what install wrote."`
	Provision   provisionCommand   `cmd:"" help:"Prepare an external bus: make the streams and buckets that are missing."`
	Keys        keysCommand        `cmd:"" help:"Make the keys for the roles of an external bus."`
	Doctor      doctorCommand      `cmd:"" help:"Say what runs, where, and what is wrong."`
	Healthcheck healthcheckCommand `cmd:"" help:"Say whether what runs here does its work, for orchestrators."`
	Version     quick.Version      `cmd:"" help:"Print version, commit and Go version."`
}

func main() {
	if code, ran := quick.Run(os.Args[1:]); ran {
		os.Exit(code)
	}
	os.Args = healthcheckArgs(os.Args)
	line := &cli{}
	code := service.Main("tocsin", quick.Description, line)
	os.Exit(line.Hook.ExitCode(code, os.Args[1:], &cli{}))
}

// healthcheckArgs returns the command line with `tocsin SERVICE healthcheck` turned into
// `tocsin healthcheck SERVICE`. The image of a service has the entry point `tocsin
// SERVICE`, so `docker run IMAGE healthcheck` arrives in that order.
func healthcheckArgs(args []string) []string {
	services := []string{"ingest", "detector", "dashboard", "kubewatch", "gateway"}
	if len(args) > 2 && args[2] == "healthcheck" && slices.Contains(services, args[1]) {
		return slices.Concat(args[:1], []string{args[2], args[1]}, args[3:])
	}
	return args
}
