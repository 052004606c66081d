package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/tocsin-bus/tocsin/services/tocsin/setup"
	"github.com/tocsin-bus/tocsin/shared/service"
)

type uninstallCommand struct{ setupFlags }

// Run takes the client's entries out, wherever the program lies that they run.
func (c *uninstallCommand) Run(_ context.Context, env service.Env) error {
	client, place, err := c.find()
	if err != nil {
		return err
	}
	scope := setup.Scope(c.Scope)
	changes, err := plan(client, place, scope, func(f setup.File, src []byte) ([]byte, error) {
		return f.Uninstall(src, setup.Backups(f.Path))
	})
	if err != nil {
		return err
	}
	for i, change := range changes {
		changes[i].Bare = change.After == nil && change.File.Fresh(change.Before)
	}
	wrote, err := c.apply(env.Stdout, client, changes)
	if err != nil {
		return err
	}
	say := printer{w: env.Stdout}
	if s, err := inspect(client, place, scope); err == nil {
		for _, path := range s.alsoIn {
			say.line("note: " + path + " has tocsin too, which install did not write: take it out there, if it is to go")
		}
	}
	for _, other := range setup.Scopes() {
		if s, err := inspect(client, place, other); err == nil && other != scope && s.written {
			say.line(fmt.Sprintf("note: %s has it too: tocsin uninstall %s --scope %s", strings.Join(s.paths, " and "), client.Name, other))
		}
	}
	if !wrote {
		return say.err
	}
	say.line("next:\n  - restart " + client.Title + ", which goes on with what it has read until then")
	return say.err
}
