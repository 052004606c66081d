package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/tocsin-bus/tocsin/services/tocsin/setup"
)

// notes returns warnings about settings that likely differ from what the user expects.
func notes(client setup.Client, dirs setup.Dirs, scope setup.Scope, w setup.Options) []string {
	var out []string
	if root := repository(dirs.Project); scope == setup.Project && root != "" {
		out = append(out, "these files contain a path of this machine: keep them out of version control")
		if root != dirs.Project {
			out = append(out, fmt.Sprintf("%s is inside of %s: a client that starts there may not read these files", dirs.Project, root))
		}
	}
	for _, name := range []string{"TOCSIN_STATE_DIR", "TOCSIN_NATS_URL"} {
		if os.Getenv(name) != "" && (name != "TOCSIN_STATE_DIR" || w.StateDir == "") {
			out = append(out, name+" is set here: start the client with it, too, or it joins another bus")
		}
	}
	var off switches
	for _, of := range setup.Scopes() {
		s, err := inspect(client, dirs, of)
		if err != nil {
			continue
		}
		off.note(s)
		out = append(out, notesOn(s, of == scope, w.Hooks)...)
	}
	if off.hooks != "" && w.Hooks {
		out = append(out, client.Title+" runs no hooks: they are turned off by "+off.hooks)
	}
	if off.server != "" || off.projectServer != "" && scope == setup.Project {
		out = append(out, client.Title+" does not start the server: it is turned off by "+cmp.Or(off.server, off.projectServer))
	}
	return out
}

// notesOn returns warnings about entries of a scope that conflict with what was written.
func notesOn(s clientState, written, hooks bool) []string {
	var out []string
	const twice = "both run, and one is enough"
	if s.found.Plugin != "" {
		out = append(out, fmt.Sprintf("the plugin %s is on (scope %s), with a server and hooks of its own: %s", s.found.Plugin, s.scope, twice))
	}
	if hooks {
		for _, path := range s.extraHookFiles {
			out = append(out, fmt.Sprintf("%s has hooks of tocsin, too: %s", path, twice))
		}
		if !written && len(s.found.Hooks) > 0 {
			out = append(out, fmt.Sprintf("%s has hooks of tocsin, too (scope %s): %s", s.paths[len(s.paths)-1], s.scope, twice))
		}
	}
	server := s.found.Server
	if written && server != nil && server.Off != "" {
		out = append(out, s.client.Title+" does not start the server: it is turned off by "+server.Off)
	}
	if written && server != nil && server.IsHTTP() && server.Client() == "" && s.hooked() {
		out = append(out, "the server's URL has no ?client=NAME: add it and run this again, or hooks and observe both deliver each alert")
	}
	return out
}
