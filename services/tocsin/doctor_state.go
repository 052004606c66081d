package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/tocsin/setup"
)

// clientState is what one scope of a client contains of ours.
type clientState struct {
	client setup.Client
	scope  setup.Scope
	// dirs are where it was found. For a project, that may be a parent directory.
	dirs  setup.Dirs
	found setup.Entries
	// extraHooks are the hooks in files that install does not write, extraHookFiles these
	// files, and extraFiles all such files with an entry of ours.
	extraHooks                 []setup.Hook
	extraHookFiles, extraFiles []string
	// paths are the files with entries of ours, programs the programs of these entries.
	paths, programs []string
	// off has the settings of the scope that turn entries off.
	off switches
	// written is set when a file that install writes has an entry of ours, stale when
	// install would change it.
	written, stale bool
}

// switches are the settings that turn entries off, each with its file.
type switches struct{ hooks, server, projectServer string }

// note adds the settings of a scope, which hold for the other scope, too.
func (s *switches) note(of clientState) {
	s.hooks = cmp.Or(of.off.hooks, s.hooks)
	s.server = cmp.Or(of.off.server, s.server)
	s.projectServer = cmp.Or(of.off.projectServer, s.projectServer)
}

// nearest returns what a client has in a scope. For a project, that is the working
// directory or the nearest parent with an entry of ours, within the repository.
func nearest(client setup.Client, dirs setup.Dirs, scope setup.Scope) (clientState, error) {
	here, err := inspect(client, dirs, scope)
	root := repository(dirs.Project)
	if err != nil || scope == setup.User || root == "" {
		return here, err
	}
	for at := dirs; ; at.Project = filepath.Dir(at.Project) {
		if sameFile(at.Project, dirs.Home) {
			return here, nil // the files there are the user's
		}
		if s, err := inspect(client, at, scope); err != nil || s.any() || s.found.Plugin != "" {
			return s, err
		}
		if at.Project == root {
			return here, nil
		}
	}
}

// inspect returns what the files of one scope contain of ours.
func inspect(client setup.Client, dirs setup.Dirs, scope setup.Scope) (clientState, error) {
	s := clientState{client: client, scope: scope, dirs: dirs}
	texts := map[string][]byte{}
	written := client.Files(dirs, scope)
	for _, file := range written {
		src, err := setup.Read(file.Path)
		if err != nil {
			return s, err
		}
		found, err := file.Find(src)
		if err != nil {
			return s, err
		}
		s.note(file, found)
		if !found.Any() {
			continue
		}
		s.written = true
		s.found.Hooks = append(s.found.Hooks, found.Hooks...)
		s.paths, texts[file.Path] = append(s.paths, file.Path), src
	}
	if client.ReadOnlyFiles != nil {
		if err := s.addReadOnlyFiles(client.ReadOnlyFiles(dirs, scope), client.Files(dirs, setup.User)); err != nil {
			return s, err
		}
	}
	if !s.written {
		return s, nil
	}
	w := setup.Options{
		Program: s.found.Program(), Hooks: len(s.found.Hooks) > 0, Inbox: s.found.Server.Client(), StateDir: s.found.Server.StateDir(),
		Namespaces: s.found.Server.Namespaces(),
	}
	var err error
	if w.Variables, err = gatewayVariables(); err != nil {
		return s, err
	}
	for _, file := range written {
		src, has := texts[file.Path]
		after, err := file.Install(src, w)
		s.stale = s.stale || has && err == nil && string(after) != string(src)
	}
	return s, nil
}

// addReadOnlyFiles adds files that the client reads beside those that install writes. Errors
// in the user's files are reported for the user's scope only.
func (s *clientState) addReadOnlyFiles(files, users []setup.File) error {
	for _, file := range files {
		src, err := setup.Read(file.Path)
		var found setup.Entries
		if err == nil {
			found, err = file.Find(src)
		}
		if err != nil && slices.ContainsFunc(users, func(f setup.File) bool { return f.Path == file.Path }) {
			continue
		}
		if err != nil {
			return err
		}
		s.note(file, found)
		if found.Any() {
			s.paths, s.extraFiles = append(s.paths, file.Path), append(s.extraFiles, file.Path)
		}
		if len(found.Hooks) > 0 {
			s.extraHooks, s.extraHookFiles = append(s.extraHooks, found.Hooks...), append(s.extraHookFiles, file.Path)
		}
	}
	return nil
}

// note adds the entries of a file, except its hooks.
func (s *clientState) note(file setup.File, found setup.Entries) {
	in := func(setting string) string { return setting + " in " + file.Path }
	if found.HooksOff != "" {
		s.off.hooks = in(found.HooksOff)
	}
	if found.ServerOff != "" {
		s.off.server = in(found.ServerOff)
	}
	if found.ProjectServerOff != "" {
		s.off.projectServer = in(found.ProjectServerOff)
	}
	if found.Plugin != "" {
		s.found.Plugin = found.Plugin
	}
	if found.Server.IsTocsin() {
		s.found.Server = found.Server
		if found.Server.Off != "" {
			s.found.Server.Off = in(found.Server.Off)
		}
		if !found.Server.IsHTTP() {
			s.programs = append(s.programs, found.Server.Command)
		}
	}
	for _, h := range found.Hooks {
		s.programs = append(s.programs, h.Program)
	}
}

// others describes where the hooks are that run beside those of the scope.
func (s clientState) others() string {
	if len(s.extraHookFiles) > 0 && len(s.found.Hooks) > 0 {
		return "in " + s.extraHookFiles[0]
	}
	return "above"
}

// hooked reports whether there are hooks in any file.
func (s clientState) hooked() bool { return len(s.found.Hooks)+len(s.extraHooks) > 0 }

// rewakes reports whether a hook wakes the model after it has stopped.
func (s clientState) rewakes() bool {
	wakes := func(h setup.Hook) bool { return h.Rewake }
	return slices.ContainsFunc(s.found.Hooks, wakes) || slices.ContainsFunc(s.extraHooks, wakes)
}

// any reports whether any file of the scope has an entry of ours.
func (s clientState) any() bool { return s.found.Any() || len(s.extraHooks) > 0 }

// install returns the command that updates the entries, and adds no hooks.
func (s clientState) install() string {
	command := fmt.Sprintf("tocsin install %s --scope %s", s.client.Name, s.scope)
	if s.client.HasHooks && len(s.found.Hooks) == 0 {
		command += " --no-hooks"
	}
	return command
}

// fix returns how to correct the entries: by install, if it wrote them.
func (s clientState) fix() string {
	if !s.written {
		return "correct it in " + strings.Join(s.paths, " and ")
	}
	return s.install()
}

// reach describes how alerts reach the client's model.
func (s clientState) reach(off switches) string {
	if s.found.Server != nil && s.found.Server.Off != "" {
		off.server = s.found.Server.Off
	}
	if off.server == "" && s.scope == setup.Project {
		off.server = off.projectServer
	}
	add := ""
	if s.found.Server == nil {
		add = s.install()
	}
	var text string
	if !s.client.HasHooks && off.server == "" {
		text = "alerts reach its model when it calls observe: it has no hooks"
	} else {
		text = off.delivery(s.hooked(), s.found.Server != nil, add)
	}
	if s.client.HasHooks && !s.hooked() {
		text += "; to deliver them by hooks: tocsin install " + s.client.Name + " --scope " + string(s.scope)
	}
	more := ""
	if s.rewakes() && off.hooks == "" {
		more = ", and wake it after it has stopped"
	}
	if s.client.Name == "claude-code" && s.found.Server != nil && off.server == "" {
		if s.hooked() {
			more += ", and by the channel in a session that was started with it"
		} else {
			more += "; and by the channel in a session that was started with it"
		}
	}
	if needs := s.client.Approval(s.scope); needs != "" {
		more += " (" + needs + ")"
	}
	if s.found.Server != nil && s.found.Server.IsHTTP() {
		more += "; its gateway is at a URL, and not checked here"
	}
	if s.stale {
		more += "; this version writes more: " + s.install()
	}
	return text + more
}

// delivery describes how alerts reach a model with or without hooks and observe. Where
// observe is missing, add is the command that adds it.
func (s switches) delivery(hooks, observe bool, add string) string {
	on := hooks && s.hooks == ""
	switch {
	case on && observe && s.server == "":
		return "alerts reach its model by hooks and by observe"
	case on && observe:
		return "alerts reach its model by hooks; observe is missing: its MCP server is turned off by " + s.server
	case on:
		return "alerts reach its model by hooks; observe is missing: " + add
	case observe && s.server == "" && hooks:
		return "alerts reach its model only when it calls observe: its hooks are turned off by " + s.hooks
	case observe && s.server == "":
		return "alerts reach its model only when it calls observe"
	case observe && hooks:
		return "no alert reaches its model: its hooks are turned off by " + s.hooks + ", and its MCP server by " + s.server
	case observe:
		return "no alert reaches its model: its MCP server is turned off by " + s.server
	}
	return "no alert reaches its model: its hooks are turned off by " + s.hooks + ", and observe is missing: " + add
}
