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
	var is switches
	for _, scope := range setup.Scopes() {
		if scope == setup.Project && sameFile(place.Project, place.Home) {
			continue // it would be the user's again
		}
		s, err := nearest(client, place, scope)
		if err != nil {
			out = append(out, finding{client.Name, err.Error(), "mend that file, or move it away: " + client.Title + " may not read it either"})
			continue
		}
		is.note(s)
		if s.any() || s.found.Plugin != "" {
			states = append(states, s)
		}
	}
	hooked := false
	for _, s := range states {
		if s.found.Plugin != "" {
			out = append(out, plugin(s, is))
			hooked = true
		}
	}
	for _, s := range states {
		if !s.any() {
			continue
		}
		where := fmt.Sprintf("%s in %s", s.scope, strings.Join(s.paths, " and "))
		f := finding{what: client.Name, is: where + "; " + s.reach(is)}
		if s.place.Project != place.Project && s.scope == setup.Project && !client.Upwards {
			f.is += "; for sessions that are started in " + s.place.Project
		}
		if len(s.found.Hooks) > 0 || len(s.more) > 0 {
			if hooked || len(s.found.Hooks) > 0 && len(s.more) > 0 {
				f.is += "; with the hooks " + s.others() + " all run twice, once is enough"
			}
			hooked = true
		}
		if wrong, mend := d.wrong(ctx, s); wrong != "" {
			f.is, f.mend = where+" "+wrong, mend
		}
		out = append(out, f)
	}
	if len(out) == 0 && inUse(client, place) {
		out = append(out, finding{what: client.Name, is: "not set up, no alert reaches its model: tocsin install " + client.Name})
	}
	return out
}

// plugin says what the plugin does, which brings server and hooks of its own.
func plugin(s clientState, is switches) finding {
	f := finding{what: s.client.Name, is: fmt.Sprintf("%s has the plugin %s; ", s.scope, s.found.Plugin)}
	if _, err := exec.LookPath(setup.ServerName); err != nil {
		f.is += "it runs tocsin, and there is none in PATH"
		f.mend = "put tocsin into a directory of PATH"
		if itself, err := thisProgram(); err == nil {
			f.mend += ", such as by a link to " + itself
		}
		return f
	}
	f.is += is.ways(true, true, "")
	return f
}

// inUse says whether the user has a client. A directory that holds nothing but
// what we left there is none.
func inUse(client setup.Client, place setup.Place) bool {
	entries, err := os.ReadDir(client.Dir(place))
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

// wrong says what is wrong with what a scope has, and the mend; empty when nothing
// is.
func (d *doctor) wrong(ctx context.Context, s clientState) (is, mend string) {
	if is, mend := d.broken(ctx, s); is != "" {
		return is, mend
	}
	server := s.found.Server
	if !s.hooked() || server == nil {
		return "", ""
	}
	if server.HTTP() && server.Client() == "" {
		return "has a URL that names no client: its hooks and observe tell each alert, twice",
			fmt.Sprintf("add ?client=NAME to the URL, then: %s", s.mend())
	}
	elsewhere := func(h setup.Hook) bool { return server.Client() != "" && h.Inbox != server.Client() }
	is = fmt.Sprintf("has hooks that don't share the inbox %q of its gateway: each alert is told twice", server.Client())
	switch {
	case slices.ContainsFunc(s.found.Hooks, elsewhere):
		return is, s.mend()
	case slices.ContainsFunc(s.more, elsewhere):
		return is, fmt.Sprintf("add --inbox %s to the hooks in %s", server.Client(), strings.Join(s.moreIn, " and "))
	}
	return "", ""
}
