// Package setup adds Tocsin to the configuration files of an MCP client, and removes
// it: the MCP server, and the hooks that deliver pending alerts to the client's model.
//
// The editors are pure functions from bytes to bytes. They keep the rest of a file with
// its comments and its formatting. [Change.Write] writes a backup beside the file, and
// then the new content in one rename.
//
// An entry is Tocsin's, wherever the program is installed, if it is
//   - the MCP server named tocsin whose first argument is gateway,
//   - the MCP server named tocsin with the URL of a gateway on this machine, or
//   - a hook that runs a program with the base name tocsin and the first argument hook.
//
// Another install keeps what a user added to such an entry, and uninstall removes it
// with the entry.
//
// Whether a client reads its file is not checked. [Client.NextSteps] lists what the user does
// then: trust the project, or approve the server.
package setup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
)

// ServerName is the name of the MCP server in every client.
const ServerName = "tocsin"

// Scope selects the sessions that a client is set up for.
type Scope string

// The scopes: one project, or all projects of the user.
const (
	Project Scope = "project"
	User    Scope = "user"
)

// Scopes returns all scopes, in the order of precedence in clients.
func Scopes() []Scope { return []Scope{Project, User} }

// Options configures [File.Install].
type Options struct {
	// Program is the absolute path of tocsin.
	Program string
	// Hooks reports whether to write hooks, too, if the client has hooks.
	Hooks bool
	// Rewake adds the hook that waits for an alert after the model has stopped, and
	// wakes it. Only Claude Code has such hooks; other clients ignore it.
	Rewake bool
	// Inbox is the --inbox of the hooks, which then share the inbox of the gateway with
	// this --client. If empty, an existing flag stays; without one, the working directory
	// selects the inbox.
	Inbox string
	// StateDir is the absolute path of the state directory. If empty, an existing flag
	// stays.
	StateDir string
	// Namespaces are the Kubernetes namespaces whose alerts the gateway delivers,
	// separated by commas. The hooks deliver no others. If empty, an existing flag stays.
	Namespaces string
	// Variables are the environment variables that the gateway reads, for clients that
	// pass only the variables that its entry lists.
	Variables []string
}

// gatewayArgs returns the arguments of the gateway.
func (o Options) gatewayArgs() []string {
	args := []string{"gateway"}
	if o.StateDir != "" {
		args = append(args, flagStateDir, o.StateDir)
	}
	return args
}

// hookCommand returns the command line of a hook.
func (o Options) hookCommand(client string, extra ...string) string {
	line := quote(o.Program) + " hook --client " + client
	return strings.Join(append([]string{o.withFlags(line)}, extra...), " ")
}

// withFlags returns a hook's command line with the flags of the options.
func (o Options) withFlags(line string) string {
	if o.Inbox != "" {
		line = setFlag(line, flagInbox, o.Inbox)
	}
	if o.StateDir != "" {
		line = setFlag(line, flagStateDir, o.StateDir)
	}
	if o.Namespaces != "" {
		line = setFlag(line, flagNamespaces, o.Namespaces)
	}
	return line
}

// Check returns why the options can't be written into a configuration, or nil.
func (o Options) Check() error {
	switch {
	case !filepath.IsAbs(o.Program):
		return fmt.Errorf("%q is not an absolute path", o.Program)
	case !isTocsin(o.Program):
		return fmt.Errorf("this program is named %q: rename it to tocsin, because uninstall finds entries by that name", filepath.Base(o.Program))
	case !isWritable(o.Program):
		return fmt.Errorf("the path %q has characters that configuration files can't contain: move the program", o.Program)
	case !isWritable(o.StateDir):
		return fmt.Errorf("the state directory %q has characters that configuration files can't contain: use another", o.StateDir)
	case !isWritable(o.Inbox):
		return fmt.Errorf("the client's name %q in its MCP server has characters that hooks can't contain: use another", o.Inbox)
	case !isWritable(o.Namespaces):
		return fmt.Errorf("the namespaces %q in its MCP server have characters that hooks can't contain: correct them", o.Namespaces)
	}
	return nil
}

func isWritable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Dirs are the directories in which clients look for their configuration.
type Dirs struct {
	// Project is the directory of the project, Home the home directory of the user, and
	// Config the user's directory of configurations ([os.UserConfigDir]).
	Project, Home, Config string
	// Getenv reads the environment, whose variables may name other directories.
	Getenv func(string) string
}

// envOr returns the directory that the environment variable names, or the default.
func (d Dirs) envOr(variable string, dir ...string) string {
	if v := d.Getenv(variable); v != "" {
		return v
	}
	return filepath.Join(dir...)
}

// Client is a client that can be set up.
type Client struct {
	inbox.Agent
	// Programs are the names of its executables.
	Programs []string
	// Dir returns its directory of the user, which exists if the user has used it.
	Dir func(Dirs) string
	// Files returns the files of a scope, in the order in which they are written.
	Files func(Dirs, Scope) []File
	// ReadOnlyFiles returns more files that it reads, and that install never writes. It is
	// nil if there are none.
	ReadOnlyFiles func(Dirs, Scope) []File
	// ReadsParents reports whether it also reads a project's files from the parent
	// directories within the repository.
	ReadsParents bool
	// Approval describes what the user must have allowed before the client uses the files
	// of a scope, such as "once the server is approved". It is empty if nothing is needed.
	Approval func(Scope) string
	// NextSteps returns what the user has to do after a change, a line each.
	NextSteps func(Scope, Options) []string
}

// Clients returns all clients that can be set up: those of [inbox.Agents].
func Clients() []Client {
	return []Client{claudeCode(), codex(), geminiCLI(), cursor(), vscode()}
}

// agent returns the known agent with a name.
func agent(name string) inbox.Agent {
	known, found := inbox.FindAgent(name)
	if !found {
		panic("setup: inbox.Agents does not list " + name)
	}
	return known
}

// Lookup returns the client with a name.
func Lookup(name string) (Client, bool) {
	all := Clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return all[i], true
}

// Entries are Tocsin's entries in a file, and the settings that turn them off.
type Entries struct {
	// Server is the MCP server named tocsin, if there is one.
	Server *Server
	// Hooks are the hooks that run Tocsin.
	Hooks []Hook
	// Plugin is the name of Tocsin's plugin if the file turns it on, else empty.
	Plugin string
	// HooksOff is the setting in this file that turns all hooks off, or empty.
	HooksOff string
	// ServerOff is the setting in this file that turns the server off, in whichever file
	// the server is set up; ProjectServerOff is one for the server of the project only.
	// Both may be empty.
	ServerOff, ProjectServerOff string
}

// Hook is a hook that runs Tocsin.
type Hook struct {
	Event, Program string
	// Inbox, StateDir and Namespaces are the flags for these, or empty.
	Inbox, StateDir, Namespaces string
	// Rewake reports whether it waits for an alert and wakes the model.
	Rewake bool
}

// Any reports whether the file has an MCP server or a hook of Tocsin.
func (e Entries) Any() bool { return e.Server.IsTocsin() || len(e.Hooks) > 0 }

// Program returns the program that the entries run, or nothing if they run none.
func (e Entries) Program() string {
	switch {
	case e.Server.IsTocsin() && !e.Server.IsHTTP():
		return e.Server.Command
	case len(e.Hooks) > 0:
		return e.Hooks[0].Program
	}
	return ""
}
