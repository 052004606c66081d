// Command launcher is the program `tocsin` of make build and of the release archives. It
// runs the commands of package quick itself, and for all others it is replaced by
// tocsin-services, the whole program, which is installed beside it.
//
// `go install .../services/tocsin` installs the whole program as tocsin: it needs no
// launcher, and its hooks start slower.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tocsin-bus/tocsin/services/tocsin/quick"
	"github.com/tocsin-bus/tocsin/shared/service"
)

func main() {
	if code, ran := quick.Run(os.Args[1:]); ran {
		os.Exit(code)
	}
	fmt.Fprintln(os.Stderr, "tocsin:", launch())
	os.Exit(service.ExitFailed)
}

// launch replaces this process by the whole program, with the same arguments and
// environment. It returns only if that is not possible.
func launch() error {
	itself, err := os.Executable()
	if err == nil {
		itself, err = filepath.EvalSymlinks(itself)
	}
	if err != nil {
		return fmt.Errorf("find the path of tocsin: %w", err)
	}
	services := filepath.Join(filepath.Dir(itself), quick.ServicesProgram)
	err = syscall.Exec(services, os.Args, os.Environ()) //nolint:gosec // the program beside this one, with its own arguments
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing: copy it there from the release archive that tocsin came from, or run: go install github.com/tocsin-bus/tocsin/services/tocsin@latest", services)
	}
	return fmt.Errorf("start %s: %w", services, err)
}
