package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/alecthomas/kong"
)

// othersVariables are those of others that a gateway, or the bus that it starts,
// goes by: where state and settings are kept, the desktop that shows notices, and the proxy on
// the way to a webhook.
func othersVariables() []string {
	return []string{
		"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	}
}

// passedOn are the variables that a client has to pass on to its gateway: all
// that the gateway reads, and the bus that it may start.
func passedOn() ([]string, error) {
	k, err := kong.New(&cli{}, kong.Configuration(noSettings))
	if err != nil {
		return nil, fmt.Errorf("list the settings: %w", err)
	}
	var out []string
	add := func(flags []*kong.Flag) {
		for _, flag := range flags {
			out = append(out, flag.Envs...)
		}
	}
	add(k.Model.Flags)
	for _, command := range k.Model.Children {
		if command.Name == "gateway" || command.Name == "up" {
			add(command.Flags)
		}
	}
	slices.Sort(out)
	return append(slices.Compact(out), othersVariables()...), nil
}

// given says whether a flag stands on the command line: its value may as well come
// from the environment or a settings file.
func given(line *kong.Context, flag string) bool {
	return slices.ContainsFunc(line.Path, func(word *kong.Path) bool {
		return word.Flag != nil && word.Flag.Name == flag && !word.Resolved
	})
}

// noSettings stands for the settings file where none is read.
func noSettings(io.Reader) (kong.Resolver, error) { return nil, nil }
