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

// clients says of each client that is in use here whether alerts reach its
// model. One that is not set up is no fault; one whose entries lead nowhere is.
func (d *doctor) clients(ctx context.Context) []finding {
	place, err := herePlace()
	if err != nil {
		return nil // without a home there are no clients
	}
	var out []finding
	for _, client := range setup.Clients() {
		out = append(out, d.client(ctx, client, place)...)
	}
	return out
}

func (d *doctor) client(ctx context.Context, client setup.Client, place setup.Place) []finding {
	var out []finding
	var states []clientState
	off := ""
	for _, scope := range setup.Scopes() {
		if scope == setup.Project && sameFile(place.Project, place.Home) {
			continue // it would be the user's again
		}
		s, err := look(client, place, scope)
		if err != nil {
			out = append(out, finding{what: client.Name, is: err.Error()})
			continue
		}
		if s.off != "" {
			off = s.off
		}
		if s.found.Plugin != "" {
			out = append(out, finding{what: client.Name, is: fmt.Sprintf("%s has the plugin %s; alerts reach its model by hooks and by observe", scope, s.found.Plugin)})
		}
		if s.found.Any() {
			states = append(states, s)
		}
	}
	hooked := len(out) // a plugin has hooks, too
	for _, s := range states {
		where := fmt.Sprintf("%s in %s", s.scope, strings.Join(s.paths, " and "))
		f := finding{what: client.Name, is: where + "; " + s.reach(off)}
		if len(s.found.Hooks) > 0 {
			if hooked++; hooked > 1 {
				f.is += "; with the hooks above all run twice, once is enough"
			}
		}
		if is := d.broken(ctx, s, place); is != "" {
			f.is, f.mend = where+" "+is, s.install()
		}
		out = append(out, f)
	}
	if len(out) == 0 && inUse(client, place) {
		out = append(out, finding{what: client.Name, is: "not set up, no alert reaches its model: tocsin install " + client.Name})
	}
	return out
}

// inUse says whether the user has a client.
func inUse(client setup.Client, place setup.Place) bool {
	if info, err := os.Stat(client.Dir(place)); err == nil && info.IsDir() {
		return true
	}
	for _, program := range client.Programs {
		if _, err := exec.LookPath(program); err == nil {
			return true
		}
	}
	return false
}

// clientState is what one scope of a client has of ours.
type clientState struct {
	client setup.Client
	scope  setup.Scope
	found  setup.Found
	// paths are the files that have something, programs what they run.
	paths, programs []string
	// off is the setting that turns hooks off, with its file.
	off string
	// stale says that install would change something.
	stale bool
}

func look(client setup.Client, place setup.Place, scope setup.Scope) (clientState, error) {
	s := clientState{client: client, scope: scope}
	type text struct {
		file setup.File
		src  []byte
	}
	var texts []text
	for _, file := range client.Files(place, scope) {
		src, err := setup.Read(file.Path)
		if err != nil {
			return s, err
		}
		found, err := file.Find(src)
		if err != nil {
			return s, err
		}
		if found.HooksOff != "" {
			s.off = found.HooksOff + " in " + file.Path
		}
		if found.Plugin != "" {
			s.found.Plugin = found.Plugin
		}
		if !found.Any() {
			continue
		}
		if found.Server.Ours() {
			s.found.Server = found.Server
			s.programs = append(s.programs, found.Server.Command)
		}
		for _, h := range found.Hooks {
			s.found.Hooks = append(s.found.Hooks, h)
			s.programs = append(s.programs, h.Program)
		}
		s.paths = append(s.paths, file.Path)
		texts = append(texts, text{file, src})
	}
	for _, t := range texts {
		after, err := t.file.Install(t.src, setup.Wanted{Program: s.found.Program(), Hooks: len(s.found.Hooks) > 0})
		s.stale = s.stale || err == nil && string(after) != string(t.src)
	}
	return s, nil
}

// rewakes says whether a hook wakes the model when it has stopped.
func (s clientState) rewakes() bool {
	return slices.ContainsFunc(s.found.Hooks, func(h setup.Hook) bool { return h.Rewake })
}

// install is the command that mends what is there, and adds nothing to it.
func (s clientState) install() string {
	command := fmt.Sprintf("tocsin install %s --scope %s", s.client.Name, s.scope)
	if s.client.HasHooks && len(s.found.Hooks) == 0 {
		command += " --no-hooks"
	}
	return command
}

// reach says by which way alerts come before the client's model.
func (s clientState) reach(off string) string {
	var way string
	switch {
	case len(s.found.Hooks) == 0 && s.client.HasHooks:
		way = "alerts reach its model only when it calls observe; hooks bring them by themselves: tocsin install " + s.client.Name + " --scope " + string(s.scope)
	case len(s.found.Hooks) == 0:
		way = "alerts reach its model when it calls observe: it has no hooks that tocsin could use"
	case off != "":
		way = "alerts reach its model only when it calls observe: its hooks are turned off by " + off
	case s.found.Server == nil:
		way = "alerts reach its model by hooks; observe is missing: " + s.install()
	default:
		way = "alerts reach its model by hooks and by observe"
	}
	if s.rewakes() && off == "" {
		way += ", and wake it when it has stopped"
	}
	if s.client.Name == "claude-code" && s.found.Server != nil {
		way += ", and by the channel in a session that was started with it"
	}
	if needs := s.client.Needs(s.scope); needs != "" {
		way += " (" + needs + ")"
	}
	if s.stale {
		way += "; this version would write more: " + s.install()
	}
	return way
}
