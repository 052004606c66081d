// Command tocsin is an alert bus for AI agents: it receives events of browsers, apps and
// CI, raises the few alerts that matter, and delivers them to coding agents by MCP and hooks.
package main

import (
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/tocsin-bus/tocsin/services/dashboard"
	"github.com/tocsin-bus/tocsin/services/detector"
	"github.com/tocsin-bus/tocsin/services/ingest"
	"github.com/tocsin-bus/tocsin/services/investigator"
	"github.com/tocsin-bus/tocsin/services/investigator/client"
	"github.com/tocsin-bus/tocsin/services/kubewatch"
	"github.com/tocsin-bus/tocsin/services/tocsin/quick"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// cli is the command line: one field for each command.
type cli struct {
	service.Settings

	Up           upCommand           `cmd:"" help:"Run bus, ingest, detector and dashboard in the foreground."`
	Gateway      gatewayCommand      `cmd:"" help:"Run the MCP server on stdin and stdout; starts the bus if none runs."`
	Ingest       ingest.Command      `cmd:"" help:"Run the HTTP ingest service alone."`
	Detector     detector.Command    `cmd:"" help:"Run the detector alone."`
	Dashboard    dashboard.Command   `cmd:"" help:"Run the dashboard alone."`
	Kubewatch    kubewatch.Command   `cmd:"" help:"Watch Kubernetes clusters: publish their events and faults to the bus."`
	Investigator investigatorCommand `cmd:"" help:"Investigate alerts with language models and MCP servers, alone; or check the configuration."`
	Investigate  client.Command      `cmd:"" help:"Submit an alert to the investigator, and follow its session."`
	Tail         tailCommand         `cmd:"" help:"Print the last alerts, then each new one."`
	Wait         quick.Wait          `cmd:"" help:"Block until an alert arrives, print the pending alerts, exit."`
	Silence      silenceCommand      `cmd:"" help:"Silence alerts for all agents for a while; list or remove silences."`
	Ack          ackCommand          `cmd:"" help:"Acknowledge an alert for all agents: its repeats are suppressed until it escalates or resolves."`
	Hook         quick.Hook          `cmd:"" help:"Answer a hook of a coding agent with its pending alerts."`
	CI           quick.CI            `cmd:"" name:"ci" help:"Post a CI result from a pipeline."`
	Install      installCommand      `cmd:"" help:"Set up an MCP client: its gateway, and hooks that deliver alerts to its model."`
	Uninstall    uninstallCommand    `cmd:"" help:"Remove from an MCP client what install added."`
	Provision    provisionCommand    `cmd:"" help:"Prepare an external bus: create missing streams and buckets."`
	Keys         keysCommand         `cmd:"" help:"Create the keys for the roles of an external bus."`
	Doctor       doctorCommand       `cmd:"" help:"Check what runs and is set up, and print fixes."`
	Healthcheck  healthcheckCommand  `cmd:"" help:"Check the services that run here, for orchestrators."`
	Version      quick.Version       `cmd:"" help:"Print version, commit and Go version."`
}

// investigatorCommand is the service, and what is done with its configuration.
type investigatorCommand struct {
	Serve investigator.Command      `cmd:"" name:"run" default:"withargs" help:"Run the investigator alone (default)."`
	Check investigator.CheckCommand `cmd:"" help:"Check a configuration: print every error and warning with its line, and what it leads to."`
}

// Help returns the text below the first line of --help.
func (investigatorCommand) Help() string {
	return `Without a command it is "tocsin investigator run", whose flags these are.`
}

// Vars returns the variables in the tags.
func (*cli) Vars() kong.Vars { return quick.Vars() }

func main() {
	if code, ran := quick.Run(os.Args[1:]); ran {
		os.Exit(code)
	}
	os.Args = healthcheckArgs(os.Args)
	os.Exit(service.Main("tocsin", quick.Description, &cli{}))
}

// healthcheckArgs returns the command line with `tocsin SERVICE healthcheck` turned into
// `tocsin healthcheck SERVICE`. The image of a service has the entry point `tocsin
// SERVICE`, so `docker run IMAGE healthcheck` arrives in that order.
func healthcheckArgs(args []string) []string {
	services := []string{"ingest", "detector", "dashboard", "kubewatch", "investigator", "gateway"}
	if len(args) > 2 && args[2] == "healthcheck" && slices.Contains(services, args[1]) {
		return slices.Concat(args[:1], []string{args[2], args[1]}, args[3:])
	}
	return args
}
