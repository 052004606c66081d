package main

import (
	"fmt"

	"github.com/tocsin-bus/tocsin/shared/service"
)

type versionCommand struct{}

// Run prints one line: tocsin VERSION commit COMMIT goVERSION.
func (versionCommand) Run(env service.Env) error {
	v := env.Version
	_, err := fmt.Fprintf(env.Stdout, "tocsin %s commit %s %s\n", v.Version, v.Commit, v.Go)
	return err
}
