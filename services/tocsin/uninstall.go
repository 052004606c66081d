package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/tocsin-bus/tocsin/services/tocsin/setup"
	"github.com/tocsin-bus/tocsin/shared/service"
)

type uninstallCommand struct{ setupFlags }

// Run removes the entries of the client, whichever path of tocsin they have.
func (c *uninstallCommand) Run(_ context.Context, env service.Env) error {
	client, dirs, err := c.find()
	if err != nil {
		return err
	}
	scope := setup.Scope(c.Scope)
	changes, err := plan(client, dirs, scope, func(f setup.File, src []byte) ([]byte, error) {
		return f.Uninstall(src, setup.Backups(f.Path))
	})
	if err != nil {
		return err
	}
	for i, change := range changes {
		changes[i].NoBackup = change.After == nil && change.File.CreatedByInstall(change.Before)
	}
	wrote, err := c.apply(env.Stdout, client, changes)
	if err != nil {
		return err
	}
	out := printer{w: env.Stdout}
	if s, err := inspect(client, dirs, scope); err == nil {
		for _, path := range s.extraFiles {
			out.line("note: " + path + " has an entry of tocsin that install did not write: remove it there if you want to")
		}
	}
	for _, other := range setup.Scopes() {
		if s, err := inspect(client, dirs, other); err == nil && other != scope && s.written {
			out.line(fmt.Sprintf("note: %s has entries, too: tocsin uninstall %s --scope %s", strings.Join(s.paths, " and "), client.Name, other))
		}
	}
	if !wrote {
		return out.err
	}
	out.line("next:\n  - restart " + client.Title + ", which uses its old configuration until then")
	return out.err
}
