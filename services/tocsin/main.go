// Command tocsin is an alert bus for AI agents: it takes in what browsers, apps
// and CI send, finds the few alerts that matter, and puts them in front of a
// coding agent through MCP.
package main

import (
	"os"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/dashboard"
	"github.com/tocsin-bus/tocsin/services/detector"
	"github.com/tocsin-bus/tocsin/services/ingest"
	"github.com/tocsin-bus/tocsin/services/kubewatch"
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
	Hook        hookCommand        `cmd:"" help:"Answer a hook of a coding agent: pending alerts, in the client's format."`
	CI          ciCommand          `cmd:"" name:"ci" help:"Post a CI result, from a pipeline."`
	Install     installCommand     `cmd:"" help:"Set up an MCP client: the gateway, and hooks that put alerts before its model."`
	Uninstall   uninstallCommand   `cmd:"" help:"Take out of an MCP client what install wrote."`
	Provision   provisionCommand   `cmd:"" help:"Prepare an external bus: make the streams and buckets that are missing."`
	Keys        keysCommand        `cmd:"" help:"Make the keys for the roles of an external bus."`
	Doctor      doctorCommand      `cmd:"" help:"Say what runs, where, and what is wrong."`
	Healthcheck healthcheckCommand `cmd:"" help:"Say whether what runs here does its work, for orchestrators."`
	Version     versionCommand     `cmd:"" help:"Print version, commit and Go version."`
}

// hookLine is the part of the command line that an agent waits for, again and again:
// to make out what all commands take costs a third of what a hook takes.
type hookLine struct {
	service.Settings

	Hook hookCommand `cmd:"" help:"Answer a hook of a coding agent: pending alerts, in the client's format."`
}

func main() {
	const description = "An alert bus for AI agents."
	if onlyHook(os.Args[1:]) && !service.HasUserFile() {
		line := &hookLine{}
		code := service.Main("tocsin", description, line)
		os.Exit(line.Hook.exitCode(code, os.Args[1:]))
	}
	os.Args = healthcheckArgs(os.Args)
	line := &cli{}
	code := service.Main("tocsin", description, line)
	os.Exit(line.Hook.exitCode(code, os.Args[1:]))
}

// onlyHook says whether the part for hooks is enough. A settings file may hold the
// settings of all commands, and its keys are looked at.
func onlyHook(args []string) bool {
	return len(args) > 0 && args[0] == "hook" &&
		!slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--config") })
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
