package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/tocsin/setup"
)

// clientState is what one scope of a client has of ours.
type clientState struct {
	client setup.Client
	scope  setup.Scope
	// place is where it was looked for: of a project, perhaps a directory above.
	place setup.Place
	found setup.Found
	// more are hooks in files that install does not write, which are moreIn; alsoIn
	// are all such files with something of ours.
	more           []setup.Hook
	moreIn, alsoIn []string
	// paths are the files that have something, programs what they run.
	paths, programs []string
	// off is what the files of the scope turn off.
	off switches
	// written says that something stands where install writes, and stale that it
	// would write more there.
	written, stale bool
}

// switches are the settings, each with its file, that turn off what is set up.
type switches struct{ hooks, server, projectServer string }

// note takes those of a scope, which count for the other, too.
func (s *switches) note(of clientState) {
	s.hooks = cmp.Or(of.off.hooks, s.hooks)
	s.server = cmp.Or(of.off.server, s.server)
	s.projectServer = cmp.Or(of.off.projectServer, s.projectServer)
}

// nearest is what a client has in a scope: of a project, in the working directory
// or else in the nearest above it that has something, within the repository.
func nearest(client setup.Client, place setup.Place, scope setup.Scope) (clientState, error) {
	here, err := look(client, place, scope)
	root := repository(place.Project)
	if err != nil || scope == setup.User || root == "" {
		return here, err
	}
	for at := place; ; at.Project = filepath.Dir(at.Project) {
		if sameFile(at.Project, place.Home) {
			return here, nil // from there on it would be the user's
		}
		if s, err := look(client, at, scope); err != nil || s.any() || s.found.Plugin != "" {
			return s, err
		}
		if at.Project == root {
			return here, nil
		}
	}
}

func look(client setup.Client, place setup.Place, scope setup.Scope) (clientState, error) {
	s := clientState{client: client, scope: scope, place: place}
	texts := map[string][]byte{}
	written := client.Files(place, scope)
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
	if client.Also != nil {
		if err := s.also(client.Also(place, scope), client.Files(place, setup.User)); err != nil {
			return s, err
		}
	}
	if !s.written {
		return s, nil
	}
	w := setup.Wanted{
		Program: s.found.Program(), Hooks: len(s.found.Hooks) > 0, Inbox: s.found.Server.Client(), StateDir: s.found.Server.StateDir(),
		Namespaces: s.found.Server.Namespaces(),
	}
	var err error
	if w.Variables, err = passedOn(); err != nil {
		return s, err
	}
	for _, file := range written {
		src, has := texts[file.Path]
		after, err := file.Install(src, w)
		s.stale = s.stale || has && err == nil && string(after) != string(src)
	}
	return s, nil
}

// also takes in files that the client reads beside those that are written. What
// is wrong with the user's is said of the user's scope.
func (s *clientState) also(files, users []setup.File) error {
	for _, file := range files {
		src, err := setup.Read(file.Path)
		var found setup.Found
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
			s.paths, s.alsoIn = append(s.paths, file.Path), append(s.alsoIn, file.Path)
		}
		if len(found.Hooks) > 0 {
			s.more, s.moreIn = append(s.more, found.Hooks...), append(s.moreIn, file.Path)
		}
	}
	return nil
}

// note takes in what a file has, but for its hooks.
func (s *clientState) note(file setup.File, found setup.Found) {
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
	if found.Server.Ours() {
		s.found.Server = found.Server
		if found.Server.Off != "" {
			s.found.Server.Off = in(found.Server.Off)
		}
		if !found.Server.HTTP() {
			s.programs = append(s.programs, found.Server.Command)
		}
	}
	for _, h := range found.Hooks {
		s.programs = append(s.programs, h.Program)
	}
}

// others says where the hooks are that run beside those of the scope.
func (s clientState) others() string {
	if len(s.moreIn) > 0 && len(s.found.Hooks) > 0 {
		return "in " + s.moreIn[0]
	}
	return "above"
}

// hooked says whether there are hooks, wherever.
func (s clientState) hooked() bool { return len(s.found.Hooks)+len(s.more) > 0 }

// rewakes says whether a hook wakes the model when it has stopped.
func (s clientState) rewakes() bool {
	wakes := func(h setup.Hook) bool { return h.Rewake }
	return slices.ContainsFunc(s.found.Hooks, wakes) || slices.ContainsFunc(s.more, wakes)
}

// any says whether the scope has anything of ours, wherever.
func (s clientState) any() bool { return s.found.Any() || len(s.more) > 0 }

// install is the command that completes what is there, and adds no hooks to it.
func (s clientState) install() string {
	command := fmt.Sprintf("tocsin install %s --scope %s", s.client.Name, s.scope)
	if s.client.HasHooks && len(s.found.Hooks) == 0 {
		command += " --no-hooks"
	}
	return command
}

// mend is how entries are corrected: by install, where it writes them.
func (s clientState) mend() string {
	if !s.written {
		return "correct it in " + strings.Join(s.paths, " and ")
	}
	return s.install()
}

// reach says by which way alerts come before the client's model.
func (s clientState) reach(is switches) string {
	if s.found.Server != nil && s.found.Server.Off != "" {
		is.server = s.found.Server.Off
	}
	if is.server == "" && s.scope == setup.Project {
		is.server = is.projectServer
	}
	mend := ""
	if s.found.Server == nil {
		mend = s.install()
	}
	var way string
	if !s.client.HasHooks && is.server == "" {
		way = "alerts reach its model when it calls observe: it has no hooks that tocsin could use"
	} else {
		way = is.ways(s.hooked(), s.found.Server != nil, mend)
	}
	if s.client.HasHooks && !s.hooked() {
		way += "; hooks bring them by themselves: tocsin install " + s.client.Name + " --scope " + string(s.scope)
	}
	more := ""
	if s.rewakes() && is.hooks == "" {
		more = ", and wake it when it has stopped"
	}
	if s.client.Name == "claude-code" && s.found.Server != nil && is.server == "" {
		if s.hooked() {
			more += ", and by the channel in a session that was started with it"
		} else {
			more += "; a session that was started with the channel gets them by that"
		}
	}
	if needs := s.client.Needs(s.scope); needs != "" {
		more += " (" + needs + ")"
	}
	if s.found.Server != nil && s.found.Server.HTTP() {
		more += "; its gateway is at a URL: not started by the client, and not looked at here"
	}
	if s.stale {
		more += "; this version would write more: " + s.install()
	}
	return way + more
}

// ways says by which ways alerts reach a model that is to have hooks and observe.
// Where observe is missing, mend is the command that adds it.
func (s switches) ways(hooks, observe bool, mend string) string {
	on := hooks && s.hooks == ""
	switch {
	case on && observe && s.server == "":
		return "alerts reach its model by hooks and by observe"
	case on && observe:
		return "alerts reach its model by hooks; observe is missing: its MCP server is turned off by " + s.server
	case on:
		return "alerts reach its model by hooks; observe is missing: " + mend
	case observe && s.server == "" && hooks:
		return "alerts reach its model only when it calls observe: its hooks are turned off by " + s.hooks
	case observe && s.server == "":
		return "alerts reach its model only when it calls observe"
	case observe && hooks:
		return "no alert reaches its model: its hooks are turned off by " + s.hooks + ", and its MCP server by " + s.server
	case observe:
		return "no alert reaches its model: its MCP server is turned off by " + s.server
	}
	return "no alert reaches its model: its hooks are turned off by " + s.hooks + ", and observe is missing: " + mend
}
