package quick

import (
	"fmt"

	"github.com/tocsin-bus/tocsin/shared/service"
)

// Version is the command `tocsin version`.
type Version struct{}

// Run prints one line: tocsin VERSION commit COMMIT GOVERSION.
func (Version) Run(env service.Env) error {
	v := env.Version
	_, err := fmt.Fprintf(env.Stdout, "tocsin %s commit %s %s\n", v.Version, v.Commit, v.Go)
	return err
}
