package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/tocsin/setup"
)

// clients checks for each MCP client of this user whether alerts reach its model. A
// client that is not set up is no fault; a broken entry is.
func (d *doctor) clients(ctx context.Context) []finding {
	dirs, err := currentDirs()
	if err != nil {
		return nil // clients keep their settings in the home directory
	}
	var out []finding
	for _, client := range setup.Clients() {
		out = append(out, d.client(ctx, client, dirs)...)
	}
	return out
}

func (d *doctor) client(ctx context.Context, client setup.Client, dirs setup.Dirs) []finding {
	var out []finding
	var states []clientState
	var off switches
	for _, scope := range setup.Scopes() {
		if scope == setup.Project && sameFile(dirs.Project, dirs.Home) {
			continue // these are the user's files
		}
		s, err := nearest(client, dirs, scope)
		if err != nil {
			out = append(out, failed(client.Name, err.Error(), "fix that file, or move it away: "+client.Title+" may not be able to read it either"))
			continue
		}
		off.note(s)
		if s.any() || s.found.Plugin != "" {
			states = append(states, s)
		}
	}
	hooked := false
	for _, s := range states {
		if s.found.Plugin != "" {
			out = append(out, plugin(s, off))
			hooked = true
		}
	}
	for _, s := range states {
		if !s.any() {
			continue
		}
		where := fmt.Sprintf("%s in %s", s.scope, strings.Join(s.paths, " and "))
		f := finding{check: client.Name, result: where + "; " + s.reach(off)}
		if s.dirs.Project != dirs.Project && s.scope == setup.Project && !client.ReadsParents {
			f.result += "; for sessions that start in " + s.dirs.Project
		}
		if len(s.found.Hooks) > 0 || len(s.extraHooks) > 0 {
			if hooked || len(s.found.Hooks) > 0 && len(s.extraHooks) > 0 {
				f.result += "; its hooks run twice, because of those " + s.others()
			}
			hooked = true
		}
		if problem, fix := d.problem(ctx, s); problem != "" {
			f.result, f.fix = where+" "+problem, fix
		}
		out = append(out, f)
	}
	if len(out) == 0 && inUse(client, dirs) {
		out = append(out, finding{check: client.Name, result: "not set up; to deliver alerts to it: tocsin install " + client.Name, unset: true})
	}
	return out
}

// plugin returns the finding for a client with our plugin, which has its own server and hooks.
func plugin(s clientState, off switches) finding {
	f := finding{check: s.client.Name, result: fmt.Sprintf("%s has the plugin %s; ", s.scope, s.found.Plugin)}
	if _, err := exec.LookPath(setup.ServerName); err != nil {
		f.result += "it runs tocsin, which is not in PATH"
		f.fix = "put tocsin into a directory of PATH"
		if itself, err := thisProgram(); err == nil {
			f.fix += ", such as by a link to " + itself
		}
		return f
	}
	f.result += off.delivery(true, true, "")
	return f
}

// inUse reports whether the user has a client: its program, or its directory with more
// than our backups in it.
func inUse(client setup.Client, dirs setup.Dirs) bool {
	entries, err := os.ReadDir(client.Dir(dirs))
	for _, e := range entries {
		if err == nil && !strings.Contains(e.Name(), setup.BackupMark) {
			return true
		}
	}
	for _, program := range client.Programs {
		if _, err := exec.LookPath(program); err == nil {
			return true
		}
	}
	return false
}

// problem returns what is wrong with the entries of a scope, and its fix; both are empty
// where nothing is.
func (d *doctor) problem(ctx context.Context, s clientState) (problem, fix string) {
	if problem, fix := d.programProblem(ctx, s); problem != "" {
		return problem, fix
	}
	server := s.found.Server
	if !s.hooked() || server == nil {
		return "", ""
	}
	if server.IsHTTP() && server.Client() == "" {
		return "has a URL without ?client=NAME: its hooks and observe both deliver each alert",
			fmt.Sprintf("add ?client=NAME to the URL, then: %s", s.fix())
	}
	elsewhere := func(h setup.Hook) bool { return server.Client() != "" && h.Inbox != server.Client() }
	problem = fmt.Sprintf("has hooks that don't share the inbox %q of its gateway: each alert is delivered twice", server.Client())
	switch {
	case slices.ContainsFunc(s.found.Hooks, elsewhere):
		return problem, s.fix()
	case slices.ContainsFunc(s.extraHooks, elsewhere):
		return problem, fmt.Sprintf("add --inbox %s to the hooks in %s", server.Client(), strings.Join(s.extraHookFiles, " and "))
	}
	return "", ""
}
