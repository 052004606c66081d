// Package quick has the commands that coding agents and pipelines run again and again:
// hook, wait, ci and version. It links no service, so that they start in a few milliseconds:
// before the main function of a program, Go runs the initialisation of every package
// that it links, which takes the whole of tocsin 6 ms.
package quick

import (
	"strings"

	"github.com/alecthomas/kong"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// Description is the line about the program in --help.
const Description = "An alert bus for AI agents."

// ServicesProgram is the file name of the whole program where tocsin is the launcher (see
// services/tocsin/launcher). Both are in one directory.
const ServicesProgram = "tocsin-services"

// The command lines with a single command. Parsing the flags of all commands would take
// as long as all else that a hook does.
type (
	hookLine struct {
		service.Settings
		Hook Hook `cmd:"" help:"Answer a hook of a coding agent with its pending alerts."`
	}
	ciLine struct {
		service.Settings
		CI CI `cmd:"" name:"ci" help:"Post a CI result from a pipeline."`
	}
	waitLine struct {
		service.Settings
		Wait Wait `cmd:"" help:"Block until an alert arrives, print the pending alerts, exit."`
	}
	versionLine struct {
		service.Settings
		Version Version `cmd:"" help:"Print version, commit and Go version."`
	}
)

// Vars returns the variables in the tags of this package's commands: the names of the
// coding agents.
func Vars() kong.Vars {
	var all, withHooks []string
	for _, agent := range inbox.Agents() {
		all = append(all, agent.Name)
		if agent.HasHooks {
			withHooks = append(withHooks, agent.Name)
		}
	}
	return kong.Vars{"agents": strings.Join(all, ", "), "agents_with_hooks": strings.Join(withHooks, ", ")}
}

// Vars returns the variables in the tags.
func (hookLine) Vars() kong.Vars { return Vars() }

// Vars returns the variables in the tags.
func (waitLine) Vars() kong.Vars { return Vars() }

// SettingNames implements [service.Partial].
func (hookLine) SettingNames() []string { return settingNames }

// SettingNames implements [service.Partial].
func (ciLine) SettingNames() []string { return settingNames }

// SettingNames implements [service.Partial].
func (waitLine) SettingNames() []string { return settingNames }

// SettingNames implements [service.Partial].
func (versionLine) SettingNames() []string { return settingNames }

// Run runs the command that args name, and returns the exit status of the process. It does
// nothing and reports false where args name another command.
func Run(args []string) (code int, ran bool) {
	line := Line(args)
	if line == nil {
		return 0, false
	}
	code = service.Main("tocsin", Description, line)
	if hook, ok := line.(*hookLine); ok {
		code = hook.Hook.ExitCode(code, args, &hookLine{})
	}
	return code, true
}

// Line returns the command line that has only the command that args name, or nil where
// that is none of this package.
func Line(args []string) service.Command {
	if len(args) == 0 {
		return nil
	}
	switch args[0] {
	case "hook":
		return &hookLine{}
	case "ci":
		return &ciLine{}
	case "wait":
		return &waitLine{}
	case "version":
		return &versionLine{}
	}
	return nil
}
