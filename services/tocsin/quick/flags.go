package quick

import (
	"errors"
	"fmt"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// RequireBus returns an error with the fix if no bus runs here.
func RequireBus(env service.Env, flags service.BusFlags) error {
	if flags.External() {
		return nil
	}
	_, err := statedir.At(env.StateDir).Running()
	var unannounced *statedir.UnannouncedError
	if errors.Is(err, statedir.ErrNotRunning) && !errors.As(err, &unannounced) {
		return fmt.Errorf(`%w; start it with "tocsin up"`, err)
	}
	return err
}

// Given reports whether a flag is on the command line, and not from the environment or a
// settings file.
func Given(line *kong.Context, flag string) bool {
	return slices.ContainsFunc(line.Path, func(word *kong.Path) bool {
		return word.Flag != nil && word.Flag.Name == flag && !word.Resolved
	})
}
