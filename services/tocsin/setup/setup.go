// Package setup writes Tocsin into the configuration of an MCP client, and
// takes it out again: the MCP server, and the hooks that put pending alerts
// before the client's model.
//
// It decides what a client's file holds afterwards. The editors are pure: bytes
// in, bytes out, the rest of the file kept with its comments and its
// formatting. [Write] is what touches the disk: a backup beside the file, then
// the new content in one rename.
//
// Ours is known by its shape, wherever the program lies: the MCP server named
// tocsin whose first argument is gateway, or whose URL is that of a gateway on
// this machine, and hooks that run a program of the
// base name tocsin with the first argument hook. What a user added to such an
// entry stays when it is installed again, and goes with it on removal.
//
// It does not know whether a client reads its file: that a project has to be
// trusted, or a server approved, is said in [Client.Next], not checked.
package setup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ServerName is the name of the MCP server in every client.
const ServerName = "tocsin"

// Scope says for whom a client is set up.
type Scope string

// The scopes: this project, or everything that the user opens.
const (
	Project Scope = "project"
	User    Scope = "user"
)

// Scopes are all scopes, in the order in which clients prefer them.
func Scopes() []Scope { return []Scope{Project, User} }

// Wanted is what to write.
type Wanted struct {
	// Program is the absolute path of tocsin.
	Program string
	// Hooks are to be written too, where the client has hooks.
	Hooks bool
	// Rewake adds the hook that waits for an alert after the model has stopped,
	// and wakes it; Claude Code has that, the others ignore it.
	Rewake bool
	// Inbox is the name under which the gateway is known, for the hooks to share
	// its inbox; empty leaves it at the working directory, or at what is written.
	Inbox string
	// StateDir is the absolute path of the state directory, where it is not the
	// default; empty leaves what is written.
	StateDir string
	// Namespaces are those of Kubernetes whose alerts the gateway tells, with commas
	// between, for the hooks to tell no others; empty leaves what is written.
	Namespaces string
	// Variables are those that the gateway reads, for clients that pass on none
	// but those that its entry names.
	Variables []string
}

// args are the arguments of the gateway.
func (w Wanted) args() []string {
	args := []string{"gateway"}
	if w.StateDir != "" {
		args = append(args, flagStateDir, w.StateDir)
	}
	return args
}

// hook is the command line of a hook.
func (w Wanted) hook(client string, more ...string) string {
	line := quote(w.Program) + " hook --client " + client
	return strings.Join(append([]string{w.flagged(line)}, more...), " ")
}

// flagged is a hook's command line with the flags that are wanted.
func (w Wanted) flagged(line string) string {
	if w.Inbox != "" {
		line = withFlag(line, flagInbox, w.Inbox)
	}
	if w.StateDir != "" {
		line = withFlag(line, flagStateDir, w.StateDir)
	}
	if w.Namespaces != "" {
		line = withFlag(line, flagNamespaces, w.Namespaces)
	}
	return line
}

// Check says why a program can't be written into a configuration.
func (w Wanted) Check() error {
	switch {
	case !filepath.IsAbs(w.Program):
		return fmt.Errorf("%q is not an absolute path", w.Program)
	case !isTocsin(w.Program):
		return fmt.Errorf("this program is named %q: rename it to tocsin, because uninstall finds entries by that name", filepath.Base(w.Program))
	case !writable(w.Program):
		return fmt.Errorf("the path %q has characters that configuration files can't contain: move the program", w.Program)
	case !writable(w.StateDir):
		return fmt.Errorf("the state directory %q has characters that configuration files can't contain: use another", w.StateDir)
	case !writable(w.Inbox):
		return fmt.Errorf("the client's name %q in its MCP server has characters that hooks can't contain: use another", w.Inbox)
	case !writable(w.Namespaces):
		return fmt.Errorf("the namespaces %q in its MCP server have characters that hooks can't contain: correct them", w.Namespaces)
	}
	return nil
}

func writable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Place is where clients look for their configuration.
type Place struct {
	// Project is the directory of the project, Home that of the user, and
	// Config where the system keeps configurations (os.UserConfigDir).
	Project, Home, Config string
	// Getenv is the environment, in which clients may be told other places.
	Getenv func(string) string
}

// or is the directory that the environment names, or else the default.
func (p Place) or(variable string, dir ...string) string {
	if v := p.Getenv(variable); v != "" {
		return v
	}
	return filepath.Join(dir...)
}

// Client is a client that can be set up.
type Client struct {
	// Name is what users call it by, Title what it calls itself.
	Name, Title string
	// Programs are the commands that start it.
	Programs []string
	// HasHooks says whether it runs hooks.
	HasHooks bool
	// Dir is the user's directory of it: it is in use where there is one.
	Dir func(Place) string
	// Files are the files of a scope, in the order in which they are written.
	Files func(Place, Scope) []File
	// Also are files that it reads beside those, and that are never written; nil
	// where there are none.
	Also func(Place, Scope) []File
	// Upwards says that it reads a project's files from the directories above,
	// too, as far as the repository goes.
	Upwards bool
	// Needs is what the user has to have allowed before a scope counts; empty
	// where nothing has to be.
	Needs func(Scope) string
	// Next says what the user has to do after a change, a line each.
	Next func(Scope, Wanted) []string
}

// Clients are all clients that can be set up.
func Clients() []Client {
	return []Client{claudeCode(), codex(), geminiCLI(), cursor(), vscode()}
}

// Lookup finds a client by its name.
func Lookup(name string) (Client, bool) {
	all := Clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return all[i], true
}

// Found is what a file has of ours.
type Found struct {
	// Server is the MCP server named tocsin, if there is one.
	Server *Server
	// Hooks are our hooks.
	Hooks []Hook
	// Plugin is the plugin of ours that the file turns on, or empty.
	Plugin string
	// HooksOff is the setting in this file that turns all hooks off, or empty.
	HooksOff string
	// ServerOff is the setting in this file that turns the server off, wherever it
	// is set up; ProjectServerOff one for the server of the project alone.
	ServerOff, ProjectServerOff string
}

// Hook is a hook of ours.
type Hook struct {
	Event, Program string
	// Inbox, StateDir and Namespaces are the flags for these, or empty.
	Inbox, StateDir, Namespaces string
	// Rewake says that it waits for an alert and wakes the model.
	Rewake bool
}

// Any says whether there is anything of ours.
func (f Found) Any() bool { return f.Server.Ours() || len(f.Hooks) > 0 }

// Program is the program that our entries run; empty where they run none.
func (f Found) Program() string {
	switch {
	case f.Server.Ours() && !f.Server.HTTP():
		return f.Server.Command
	case len(f.Hooks) > 0:
		return f.Hooks[0].Program
	}
	return ""
}
